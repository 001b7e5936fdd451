"""The evidence: from model files and seeds to docs/results.md."""

from importlib.util import find_spec

for _name in ('scipy', 'statsmodels', 'pyarrow', 'matplotlib', 'PIL'):
    if find_spec(_name) is None:
        raise ImportError(f"results need {_name}: pip install 'wcpg_ros[results]'")
