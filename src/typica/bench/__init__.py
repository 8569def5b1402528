"""Benchmarks: suites of networks and data, experiments on them, one record of what came out.

    from typica.bench import builtin_features, load_suite, run_experiment, write_report

Every name is loaded when it is first asked for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
