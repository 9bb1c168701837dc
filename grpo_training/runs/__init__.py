"""The lifecycle of a run: open, resume or refuse, lock, finish.

Every command that stores results uses it in the same way. Its settings derive from
:class:`~grpo_training.runs.settings.ResumableSettings`, which has ``--resume`` and ``--fresh`` and names the fields
that change the results (its fingerprint)::

    store = RolloutStore(settings.cache_dir / "critic_results.jsonl")
    files = RunFiles(settings.cache_dir / "critic_run.json", [store.path], lock=store)
    settings = files.resumed(settings)                  # --resume: the stored settings
    problems = load_problems(settings.dataset)          # input errors come before --fresh renames anything
    facts = {"model": "qwen3-8b", "prompt_hash": "…"}   # what changes the results and is no setting
    with files.open(settings, facts) as manifest:       # lock; --fresh; refuse results of another configuration
        for problem in problems: ...                    # read what is stored, append what is missing
        manifest.finish()

A training has a directory instead of single files: :class:`~grpo_training.runs.directory.RunDirectory` is used in
the same way.
"""
