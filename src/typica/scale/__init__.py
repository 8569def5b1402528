"""Fits, calibrations and scores over tables of any size, in parts that any worker can take.

A fit is a sum, a calibration is a sample that can be merged, a score is a map. So a data set is cut
into parts, each is learnt, calibrated or judged by itself, and the results are merged; how rows are
split changes nothing but rounding. Everything is built from these:

    tables = open_tables("embeddings/", features="embedding", labels="label", ids="id")

reads the ends of all files and says what is wrong before any row is read. `tables.parts` are plain
records in order: `Part.file`, its row groups, `start` (the number of its first row in the file) and
`rows`. `tables.columns` says which columns are read. `read_part(part, columns)` yields `Batch`es:
features (n, m), labels, ids, and the source and row number that identify a row in keys and errors.
`read_batch(record_batch, columns, source, start, name)` makes a `Batch` from an engine's own Arrow
data. An object with `__arrow_c_stream__` opens as a `Stream`, which has only `batches()`.

A fit, in as many processes as there are:

    learner = Learner(detector)
    for _ in range(learner.passes):
        plan = learner.to_bytes()
        states = [learn_part(plan, part, tables.columns, tables.labels_of(part)) for part in parts]
        learner = Learner.from_bytes(merge_learnt(states)).close()
    detector = learner.finish()

`learn_batches` does the same for an iterable of batches. States are safetensors as bytes, without
pickle; `merge_learnt` takes any number of them, from empty parts too, and can itself be run in a
tree. The 2,048 rows of the provisional threshold are those with the smallest keys; a key is a hash
of (source, row number).

    plan = Calibrator.begin(detector, tables.rows, alpha=0.05).to_bytes()
    sent = typica.store.to_bytes(detector)
    states = [calibrate_part(sent, plan, part, tables.columns) for part in parts]
    detector = Calibrator.from_bytes(merge_calibrated(states), detector).finish()

A row that comes twice is refused when its second state is merged, so a retried part cannot count
twice.

    judge = Judge(typica.store.from_bytes(sent), ids=tables.id_field)
    batches = judge_part(judge, part, tables.columns)

yields record batches of `judge.schema`, which does not depend on the rows. Errors are `InputError`s
that begin with the file and name the row in it; the input is at fault, so do not retry.

`fit`, `calibrate` and `score` do all this in one process, or with `engine="dask"`, `"ray"` or
`"spark"` on a cluster; the modules of these names do it on data that an engine holds. Any other
engine is a `Cluster`: an object that maps tasks, which are bytes, and merges their results.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
