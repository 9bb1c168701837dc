from engine.llm.limits import AdaptiveConcurrency, ConcurrencyRule


def round_of(controller, now=0.0, share=1.0):
    """Report one round of successes with this share of the limit in flight."""
    limit = controller.limit
    controller.sent(int(limit * share))
    for _ in range(max(limit, 4)):
        controller.succeeded(now)


def test_slow_start_doubles_until_the_maximum():
    controller = AdaptiveConcurrency(ConcurrencyRule(start=20, maximum=300))
    limits = []
    for _ in range(5):
        round_of(controller)
        limits.append(controller.limit)
    assert limits == [40, 80, 160, 300, 300]


def test_one_clean_success_less_than_a_round_does_not_grow():
    controller = AdaptiveConcurrency(ConcurrencyRule(start=20))
    controller.sent(20)
    for _ in range(19):
        controller.succeeded(0.0)
    assert controller.limit == 20
    controller.succeeded(0.0)
    assert controller.limit == 40


def test_an_unsaturated_round_does_not_grow():
    controller = AdaptiveConcurrency(ConcurrencyRule(start=20))
    round_of(controller, share=0.75)
    assert controller.limit == 20
    round_of(controller, share=0.8)
    assert controller.limit == 40


def test_a_429_cuts_once_per_cooldown_and_ends_slow_start():
    controller = AdaptiveConcurrency(ConcurrencyRule(start=100))
    for _ in range(30):  # all were in flight at the first reply
        controller.rate_limited(now=10.0, sent_at=9.0, wait_s=None)
    assert controller.limit == 80
    controller.rate_limited(now=16.0, sent_at=9.5, wait_s=None)  # sent before the cut
    assert controller.limit == 80
    controller.rate_limited(now=16.0, sent_at=15.5, wait_s=None)  # sent after the cut
    assert controller.limit == 64
    round_of(controller, now=22.0)
    assert controller.limit == 67  # + 5 %, no longer doubling


def test_repeated_429s_reduce_the_limit_to_one_and_it_recovers():
    controller = AdaptiveConcurrency(ConcurrencyRule(start=50))
    now = 0.0
    for _ in range(40):
        now += 6.0
        controller.rate_limited(now, sent_at=now - 0.5, wait_s=None)
    assert controller.limit == 1
    for _ in range(6):
        now += 6.0
        round_of(controller, now)
    assert controller.limit == 7  # + 1 per round while 5 % is less than one


def test_the_limit_is_constant_during_a_cooldown():
    controller = AdaptiveConcurrency(ConcurrencyRule(start=100))
    controller.rate_limited(now=0.0, sent_at=-1.0, wait_s=60.0)
    round_of(controller, now=59.0)
    controller.rate_limited(now=59.0, sent_at=58.0, wait_s=None)
    assert controller.limit == 80
    round_of(controller, now=60.0)
    assert controller.limit == 84


def test_a_5xx_pauses_growth_but_does_not_cut():
    controller = AdaptiveConcurrency(ConcurrencyRule(start=20))
    controller.sent(20)
    for _ in range(19):
        controller.succeeded(0.0)
    controller.restart_round()
    controller.succeeded(0.0)
    assert controller.limit == 20
    round_of(controller)
    assert controller.limit == 40  # slow start continues


def test_the_start_value_is_capped_by_the_maximum():
    assert AdaptiveConcurrency(ConcurrencyRule(start=20, maximum=3)).limit == 3


def test_the_limit_settles_near_the_capacity_of_a_server():
    """A server that refuses more than 50 requests in flight, in virtual time: one tick is one round trip."""
    controller = AdaptiveConcurrency(ConcurrencyRule(start=20, maximum=1000))
    limits = []
    for tick in range(400):
        now = float(tick)
        limit = controller.limit
        controller.sent(limit)
        for _ in range(min(limit, 50)):
            controller.succeeded(now)
        for _ in range(max(0, limit - 50)):
            controller.rate_limited(now, sent_at=now - 0.9, wait_s=None)
        limits.append(controller.limit)
    assert all(38 <= limit <= 53 for limit in limits[100:])
    assert max(limits[100:]) > 50  # the limit keeps growing after a cut
