"""Files of runs of the manifest, as training leaves them, with weights that nobody trained."""

import dataclasses

from random_models import random_model
from test_baselines import random_baseline

from wcpg_ros.results.manifest import Run
from wcpg_ros.settings import to_mapping

LENGTH = 10_000_000     # longer than every run


def make_files(run: Run, weights: int = 0, log: str = '', **info: object) -> None:
    """The model and the learning curve; `info` is what the model says otherwise than it should."""
    said = {'scenario': run.scenario, 'seed': run.seed, 'recipe': to_mapping(run.recipe())}
    if run.settings.algorithm == 'wcpg':
        model = random_model(weights)
    else:
        model = random_baseline(seed=weights)
        said['algorithm'] = run.settings.algorithm
    type(model)(dataclasses.replace(model.info, **said | info), model.tensors).save(run.file)
    run.log.write_text(log or 'decisions,episodes,seconds,mean_return@1,collision@1,mean_return,collisions,timeouts,n\n'
                              f'{LENGTH},{LENGTH},60,20,0.1,20,1,0,10\n')
