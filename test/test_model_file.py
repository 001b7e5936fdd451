"""The model file: what goes in comes out, equal models are equal bytes, and nothing that is wrong gets through."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, fields, replace

import numpy as np
import pytest
import safetensors.numpy
from random_models import INFO, random_model, random_observations, random_tensors

from wcpg_ros import model_file
from wcpg_ros.model_card import model_card
from wcpg_ros.model_file import ModelError, ModelFile, ModelInfo, main, write_atomically
from wcpg_ros.policy import Policy


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'model.safetensors'


def write(path, info=None, tensors=None, **contents):
    """A file with a right checksum whatever it holds, as no honest writer would make it."""
    info = asdict(INFO) if info is None else info
    tensors = random_tensors(INFO) if tensors is None else tensors
    values = {'format_version': model_file.FORMAT_VERSION, 'sha256': model_file._digest(info, tensors), 'model': info}
    dense = {name: np.array(tensor, order='C') for name, tensor in tensors.items()}
    path.write_bytes(safetensors.numpy.save(dense, metadata={'wcpg_ros': json.dumps({**values, **contents})}))


# what goes in comes out

@pytest.mark.parametrize('changes', [
    {}, {'twin': True}, {'critic': 'quantile'}, {'critic': 'quantile', 'twin': True, 'risk_measure': 'wang'},
    {'critic': 'categorical', 'twin': True},
    {'observation_size': 17, 'time_feature': True, 'return_scale': 10.0, 'risk_measure': 'mean_std:0.5'},
])
def test_a_model_comes_back_as_it_was_saved(path, changes):
    model = random_model(**changes)
    model.save(path)
    back = ModelFile.load(path)
    assert back.info == model.info
    assert back.tensors.keys() == model.tensors.keys()
    for name, tensor in model.tensors.items():
        np.testing.assert_array_equal(back.tensors[name], tensor)


def test_layers_may_have_any_width(path):
    model = random_model(actor_widths={'h1': 5, 'h2': 3, 'h3': 7, 'out': 1},
                         critic_widths={'h1': 9, 'h2': 2, 'h3': 8, 'h4': 6}, critic='quantile', quantiles=11)
    model.save(path)
    assert ModelFile.load(path).layer('critic', 'out')[0].shape == (22, 6)


def test_equal_models_are_equal_bytes_whatever_the_order_and_the_process(path, tmp_path):
    model = random_model(twin=True)
    model.save(path)
    shuffled = dict(reversed(model.tensors.items()))
    recipe = dict(reversed(model.info.recipe.items()))
    other = tmp_path / 'other.safetensors'
    ModelFile(replace(model.info, recipe=recipe), shuffled).save(other)
    assert other.read_bytes() == path.read_bytes()
    code = f'from wcpg_ros.model_file import ModelFile; ModelFile.load({str(path)!r}).save({str(other)!r})'
    other.unlink()
    subprocess.run([sys.executable, '-c', code], check=True, timeout=60)
    assert other.read_bytes() == path.read_bytes()


def test_a_transposed_weight_is_written_as_it_reads(path):
    model = random_model()
    turned = {name: np.asfortranarray(tensor) for name, tensor in model.tensors.items()}
    ModelFile(model.info, turned).save(path)
    np.testing.assert_array_equal(ModelFile.load(path).layer('actor', 'h3')[0], model.layer('actor', 'h3')[0])


# atomic writing

def test_a_failed_write_leaves_the_old_file_and_no_litter(path, monkeypatch):
    write_atomically(path, b'old')

    def full_disk(descriptor):
        raise OSError('no space left on device')

    monkeypatch.setattr(os, 'fsync', full_disk)
    with pytest.raises(OSError, match='no space'):
        write_atomically(path, b'new')
    assert path.read_bytes() == b'old'
    assert list(path.parent.iterdir()) == [path]


def test_a_written_file_is_readable_as_the_umask_says(path):
    old = os.umask(0o022)
    try:
        write_atomically(path, b'new')
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o644


# files that are no models

def test_a_missing_file(path):
    with pytest.raises(ModelError, match=r'model\.safetensors: no such model file; give the path'):
        ModelFile.load(path)


def test_a_directory(tmp_path):
    with pytest.raises(ModelError, match='is a directory, not a model file'):
        ModelFile.load(tmp_path)


@pytest.mark.parametrize('contents', [b'', b'PK\x03\x04 a pickle in a zip', b'\x00' * 64, b'\xff' * 4096])
def test_not_a_safetensors_file(path, contents):
    path.write_bytes(contents)
    with pytest.raises(ModelError, match=r'model\.safetensors: not a safetensors file, or cut short.*fetch it again'):
        ModelFile.load(path)


def test_a_safetensors_file_of_somebody_else(path):
    path.write_bytes(safetensors.numpy.save({'w': np.zeros(3, np.float32)}, metadata={'format': 'pt'}))
    with pytest.raises(ModelError, match='not one of wcpg_ros; give a model that `train` wrote'):
        ModelFile.load(path)


@pytest.mark.parametrize('text', ['{', '[]', '{}', '{"format_version": 1, "sha256": "", "model": 3}'])
def test_metadata_that_cannot_be_read(path, text):
    path.write_bytes(safetensors.numpy.save(random_tensors(INFO), metadata={'wcpg_ros': text}))
    with pytest.raises(ModelError, match=r'its metadata cannot be read .*fetch it again'):
        ModelFile.load(path)


def test_a_file_cut_short_anywhere(path):
    random_model().save(path)
    whole = path.read_bytes()
    for length in [*range(0, 4096, 97), len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError, match='cut short or corrupted'):
            ModelFile.load(path)


def test_a_flipped_byte_anywhere(path):
    random_model().save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    for position in [*range(0, 3000, 41), *rng.integers(3000, len(whole), 60), len(whole) - 1]:
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(ModelError, match=r'model\.safetensors: '):
            ModelFile.load(path)


def test_a_flipped_byte_in_a_weight_is_called_corruption(path):
    random_model().save(path)
    damaged = bytearray(path.read_bytes())
    damaged[-5] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ModelError, match='do not match its checksum, it was corrupted or edited; fetch it again'):
        ModelFile.load(path)


# whole files with wrong contents

def test_another_format(path):
    write(path, format_version=2)
    with pytest.raises(ModelError, match=r'model format 2, this software reads 4; install the version'):
        ModelFile.load(path)


def test_another_observation_layout(path):
    write(path, {**asdict(INFO), 'layout_version': 9})
    with pytest.raises(ModelError, match=r'layout_version = 9 is another observation layout, this software speaks '
                                         r'\(1, 2\); train again, or install'):
        ModelFile.load(path)


@pytest.mark.parametrize('name', [field.name for field in fields(ModelInfo)])
def test_every_metadata_key_is_required(path, name):
    info = asdict(INFO)
    del info[name]
    write(path, info)
    with pytest.raises(ModelError, match=f'its metadata lacks {name}; train again'):
        ModelFile.load(path)


def test_an_unknown_metadata_key(path):
    write(path, {**asdict(INFO), 'colour': 'red'})
    with pytest.raises(ModelError, match='its metadata has unknown colour'):
        ModelFile.load(path)


@pytest.mark.parametrize(('change', 'message'), [
    ({'critic': 'normal'}, "critic = 'normal' is unknown: choose one of gaussian, quantile, categorical"),
    ({'critic': 'categorical', 'risk_measure': 'wang'}, 'a categorical critic knows cvar only'),
    ({'risk_measure': 'worst'}, "unknown risk measure 'worst': choose one of cvar"),
    ({'critic': 'quantile', 'risk_measure': 'paper'}, "'paper' is a Gaussian formula"),
    ({'scenario': ''}, 'scenario'), ({'scenario': 3}, 'scenario = 3 is not of type str'),
    ({'seed': 1.5}, 'seed = 1.5 is not of type int'), ({'seed': True}, 'seed = True is not of type int'),
    ({'twin': 1}, 'twin = 1 is not of type bool'), ({'recipe': []}, 'recipe'),
    ({'gamma': float('nan')}, 'gamma = nan is not a finite number'), ({'gamma': 1.01}, r'gamma .* within \[0, 1\]'),
    ({'alpha_min': 0.0}, 'alpha_min'), ({'alpha_max': 2.5}, 'alpha_max'),
    ({'alpha_max': 1.5, 'dial': [[0.01, 0.01], [1.5, 1.5]]}, 'alpha_max'),
    ({'alpha_min': 0.9, 'alpha_max': 0.5}, 'alpha_min'),
    ({'action_bound': 0.0}, 'action_bound'), ({'action_bound': float('inf')}, 'action_bound'),
    ({'normaliser_clip': -5.0}, 'normaliser_clip'), ({'return_scale': 0.0}, 'return_scale'),
    ({'observation_size': 17}, 'observation_size = 17 does not fit Layout'), ({'vehicles': 0}, 'vehicles'),
    ({'decision_interval': 0.0}, 'decision_interval'), ({'action_repeat': 0}, 'action_repeat'),
    ({'seed': -1}, 'seed'), ({'episodes': -1}, 'episodes'),
])
def test_metadata_out_of_range(change, message):
    with pytest.raises(ModelError, match=message):
        replace(INFO, **change)


def test_a_recipe_that_json_cannot_hold(path):
    with pytest.raises(ModelError, match='recipe cannot be written as JSON'):
        random_model(recipe={'x': float('nan')}).save(path)
    assert not path.exists()


def edit(name, make):
    tensors = random_tensors(INFO)
    tensors[name] = make(tensors[name])
    return tensors


def poison(value):
    def put(tensor):
        tensor.flat[3] = value
        return tensor
    return put


@pytest.mark.parametrize(('name', 'make', 'message'), [
    ('critic.h3.weight', poison(np.nan), 'critic.h3.weight holds NaN or infinity'),
    ('actor.h1.bias', poison(np.inf), 'actor.h1.bias holds NaN or infinity'),
    ('normaliser.std', poison(0.0), 'normaliser.std must be > 0'),
    ('normaliser.std', poison(-1.0), 'normaliser.std must be > 0'),
    ('normaliser.mean', lambda t: t[:15], r'normaliser.mean has shape \[15\], not \[16\]'),
    ('actor.h1.weight', lambda t: t[:, :12], r'actor.h1.weight has shape \[32, 12\], not \[32, 16\]'),
    ('actor.h2.weight', lambda t: t[:15], r'actor.h2.bias has shape \[16\], not \[15\]'),
    ('actor.h3.weight', lambda t: t.T.copy(), r'actor.h3.weight has shape \[48, 32\], not \[48, 48\]'),
    ('actor.out.weight', lambda t: np.vstack([t, t]), 'actor.out.weight has 2 outputs, not 1, the acceleration'),
    ('critic.out.weight', lambda t: t[:1], 'critic.out.weight has 1 outputs, not 2 for a gaussian critic'),
    ('critic.h4.bias', lambda t: t.astype(np.float64), 'critic.h4.bias is float64, not float32'),
    ('critic.h4.weight', lambda t: np.float32(1.0).reshape(()), r'critic.h4.weight has shape \[\]'),
])
def test_wrong_tensors(path, name, make, message):
    write(path, tensors=edit(name, make))
    with pytest.raises(ModelError, match=rf'model\.safetensors: tensor {message}.*; train again'):
        ModelFile.load(path)


def test_a_categorical_critic_needs_a_return_for_every_output(path):
    info = replace(INFO, critic='categorical')
    tensors = random_tensors(info)
    tensors['atoms'] = tensors['atoms'][:63]
    write(path, asdict(info), tensors)
    with pytest.raises(ModelError, match=r'tensor atoms has shape \[63\], not \[64\]'):
        ModelFile.load(path)


def test_a_quantile_critic_needs_a_tail_and_a_rest(path):
    info = replace(INFO, critic='quantile')
    tensors = random_tensors(info)
    tensors['critic.out.weight'] = tensors['critic.out.weight'][:1]
    write(path, asdict(info), tensors)
    with pytest.raises(ModelError, match='1 outputs, not at least 2 for a quantile critic'):
        ModelFile.load(path)


@pytest.mark.parametrize('name', sorted(random_tensors(INFO)))
def test_every_tensor_is_required(name):
    tensors = random_tensors(INFO)
    del tensors[name]
    with pytest.raises(ModelError, match=f'tensor {name} is missing'):
        ModelFile(INFO, tensors)


def test_a_tensor_too_many():
    tensors = random_tensors(replace(INFO, twin=True))
    with pytest.raises(ModelError, match=r'tensor critic2\.h1\.bias does not belong'):
        ModelFile(INFO, tensors)


def test_a_wrong_model_is_never_written(path):
    with pytest.raises(ModelError, match=r'actor\.h1\.bias holds NaN'):
        ModelFile(INFO, edit('actor.h1.bias', poison(np.nan))).save(path)
    assert not path.exists()


# for people

def test_show_prints_metadata_networks_and_recipe(path, capsys):
    random_model().save(path)
    assert main(['show', str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 'scenario           left_turn' in lines
    assert 'critic             h1 64×16, h2 64×1, h3 64×129, h4 64×64, out 2×64' in lines
    assert '    "batch_size": 512,' in lines


def test_the_command_line_says_what_is_wrong_and_fails(path):
    path.write_bytes(b'nothing')
    done = subprocess.run([sys.executable, '-m', 'wcpg_ros.model_file', 'show', str(path)],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith(f'model_file: {path}: not a safetensors file')
    assert 'Traceback' not in done.stderr


def test_the_card_is_written_beside_the_model(path, capsys):
    random_model().save(path)
    assert main(['card', str(path)]) == 0
    card = path.with_suffix('.md')
    assert capsys.readouterr().out.strip() == str(card)
    text = card.read_text(encoding='utf-8')
    assert text.startswith('# model\n')
    assert '| action_bound | 4.0 |' in text
    assert '| actor | h1 32×16, h2 16×1, h3 32×48, out 1×32 |' in text
    assert '"learning_rate": 0.0001' in text
    assert '## Evaluation' not in text


def test_the_card_holds_the_evaluation_it_is_given(path):
    random_model().save(path)
    text = model_card(path, [{'alpha': 0.1, 'collisions': '3/1000'}, {'alpha': 1.0, 'collisions': '41/1000'}])
    assert '## Evaluation\n\n| alpha | collisions |\n| --- | --- |\n| 0.1 | 3/1000 |\n| 1.0 | 41/1000 |' in text


# ONNX

@pytest.mark.parametrize('dial', [[], [[0.01, 0.002], [0.1, 0.02], [0.5, 0.4], [1.0, 1.0]]], ids=['plain', 'dialled'])
def test_the_exported_actor_drives_like_the_policy(path, tmp_path, dial):
    onnxruntime = pytest.importorskip('onnxruntime')
    model = random_model(observation_size=17, time_feature=True, dial=dial)
    model.save(path)
    out = tmp_path / 'actor.onnx'
    assert main(['onnx', str(path), str(out)]) == 0
    session = onnxruntime.InferenceSession(out, providers=['CPUExecutionProvider'])
    observations = random_observations(200, 17)
    observations[0] *= 1e4   # the clip is in the graph too
    alphas = np.random.default_rng(5).uniform(0.01, 1.0, 200)
    accelerations, = session.run(None, {'observation': observations, 'alpha': alphas.astype(np.float32)[:, None]})
    assert accelerations.shape == (200, 1)
    np.testing.assert_allclose(accelerations[:, 0], Policy(model).act(observations, alphas), atol=2e-5)
    assert np.ptp(accelerations) > 1.0
    assert session.get_modelmeta().custom_metadata_map['layout_version'] == '1'


def test_exporting_without_onnx_says_how_to_get_it(path, monkeypatch, capsys):
    random_model().save(path)
    monkeypatch.setitem(sys.modules, 'onnx', None)
    assert main(['onnx', str(path), str(path.with_suffix('.onnx'))]) == 2
    assert "needs the package onnx: pip install 'wcpg_ros[train]'" in capsys.readouterr().err
