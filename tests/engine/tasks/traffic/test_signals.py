from engine.tasks.traffic.signals import SignalController, SignalPhase, first_controller, program_of

# Two approaches with a protected left turn: green, yellow, left green, yellow and all-red, cross green, yellow.
PHASES = [
    SignalPhase("GGrr", 30, 5, 50),
    SignalPhase("yyrr", 3),
    SignalPhase("rGrr", 6, 6, 20),
    SignalPhase("ryrr", 3),
    SignalPhase("rrrr", 2),
    SignalPhase("rrGG", 30),
    SignalPhase("rrgy", 4),
]
LANES = ["north_0", "north_1", "east_0", "east_0"]


def program():
    return program_of("j", PHASES, LANES)


def test_a_phase_with_yellow_is_no_green_phase():
    assert program().phase_order == [0, 2, 5]


def test_the_lanes_of_a_phase_are_its_green_links_each_once():
    assert program().lanes == {0: ("north_0", "north_1"), 2: ("north_1",), 5: ("east_0",)}


def test_limits_come_from_the_network_or_are_ten_and_sixty():
    assert program().limits == {0: (5, 50), 2: (6, 20), 5: (10, 60)}


def test_a_programme_with_one_green_phase_has_nothing_to_decide():
    assert program_of("j", PHASES[:2], LANES) is None


def test_a_switch_shows_yellow_and_all_red_for_their_own_times():
    controller = SignalController(program(), phase=2, elapsed=6)
    controller.switch()
    shown = []
    while controller.pending:
        shown.append(controller.phase)
        controller.tick()
    assert shown == [3, 3, 3, 4, 4]
    assert (controller.phase, controller.elapsed) == (5, 0)


def test_the_order_is_cyclic():
    controller = SignalController(program(), phase=5, elapsed=10)
    controller.switch()
    while controller.pending:
        controller.tick()
    assert controller.phase == 0


def test_decisions_are_due_at_the_minimum_green_and_every_five_seconds_after_it():
    controller, due = SignalController(program(), phase=2), []
    for _ in range(20):
        if controller.is_due(5):
            due.append(controller.elapsed)
        controller.tick()
    assert due == [6, 11, 16]


def test_a_green_may_be_extended_up_to_its_maximum():
    controller = SignalController(program(), phase=2, elapsed=15)
    assert controller.can_extend(5)
    controller.tick()
    assert not controller.can_extend(5)


def test_a_controller_that_takes_over_in_yellow_ends_in_the_next_green():
    controller = first_controller(program(), 4)
    assert controller.phase == 4
    controller.tick()
    controller.tick()
    assert (controller.phase, controller.pending) == (5, [])


def test_a_controller_is_restored_from_its_values():
    controller = SignalController(program(), phase=2, elapsed=6)
    controller.switch()
    controller.tick()
    copy = SignalController.from_json(program(), controller.to_json())
    for _ in range(10):
        controller.tick()
        copy.tick()
    assert copy.to_json() == controller.to_json()
