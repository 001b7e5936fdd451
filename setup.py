"""Build description, for pip and for colcon (ament_python) alike.

Every dependency of the project is named here and nowhere else, with its range and its reason.
"""

from glob import glob

from setuptools import find_packages, setup

PACKAGE = 'wcpg_ros'

# What it takes to drive: the simulator, the policy node, the reference controllers.
DRIVE = [
    'numpy>=1.26,<3',        # states, observations, the policy's forward pass
    'numba>=0.60,<1',        # compiles the batched simulator
    'PyYAML>=6,<7',          # scenes, settings and recipes are YAML
    'safetensors>=0.4,<1',   # model files: no pickles
    'tqdm>=4.66,<5',         # progress bars
]

EXTRAS = {
    # rclpy, its middleware and the messages, as wheels: only where no ROS 2 distribution is installed.
    # Plain names resolve to a later ROS release than Jazzy, so each is pinned.
    'ros': [
        'ros-rclpy[fastrtps]==7.1.6',
        'ros-diagnostic-msgs==5.3.6',
        'ros-geometry-msgs==5.3.6',
        'ros-nav-msgs==5.3.6',
        'ros-sensor-msgs==5.3.6',
        'ros-std-msgs==5.3.6',
        'ros-std-srvs==5.3.6',
        'ros-visualization-msgs==5.3.6',
        'ros-builtin-interfaces==2.0.3',
        'ros-rcl-interfaces==2.0.3',
        'ros-rosgraph-msgs==2.0.3',
    ],
    'gym': ['gymnasium>=1.0,<2'],                    # the environments other libraries can learn on
    'pictures': ['pillow>=10.1,<13', 'matplotlib>=3.8,<4'],   # bird's-eye views; charts
    'train': [
        'scipy>=1.11,<2',            # the BLAS that compiled updates call, statistics
        'threadpoolctl>=3.1,<4',     # keeps that BLAS on one thread: matrices this small are slower on two
        'tensorboard>=2.16,<3',      # training curves
        'onnx>=1.16,<2',             # optional export of a policy
    ],
    'bags': ['rosbags>=0.11,<0.12', 'mcap>=1.6,<2'],   # read rosbag2; write it so that a kill loses little
    'minari': ['minari[hdf5]>=0.5,<0.6'],              # `bag export --to minari`
    'baselines': [
        'stable-baselines3>=2.4,<3',                       # DDPG and PPO
        'tianshou>=2,<3; python_version >= "3.11"',        # C51
        'torch==2.13.0',                                   # any other spelling of it pulls gigabytes
    ],
    'results': [
        'pyarrow>=15,<30',           # rows of episodes as Parquet
        'statsmodels>=0.14,<1',      # McNemar, Holm
        'scipy>=1.11,<2',            # intervals
        'pillow>=10.1,<13',          # frames
        'matplotlib>=3.8,<4',        # charts
    ],
    'ray': ['ray>=2.9,<3'],          # jobs on a cluster
    # The simulators we measure against; eclipse-sumo brings netconvert, which makes libsumo's networks.
    'bench': ['libsumo>=1.20,<2', 'eclipse-sumo>=1.20,<2', 'highway-env>=1.10,<2'],
    'test': [
        'pytest>=8,<10',
        'torch==2.13.0',             # autograd, to check the hand-written gradients against
        'hypothesis>=6.100,<7',      # property-based tests
        'onnxruntime>=1.17,<2',      # the exported policy, run by somebody else's code
        'ruff>=0.8,<1',
        'mypy>=1.11,<3',
        'types-PyYAML',
        'types-tqdm',
    ],
}

setup(
    name=PACKAGE,
    version='0.1.0',
    description='Drives the accelerator through an unprotected left turn or a highway merge, with a dial for risk',
    author='wcpg_ros maintainers',
    maintainer='wcpg_ros maintainers',
    maintainer_email='maintainers@wcpg-ros.example',
    license='Apache-2.0',
    python_requires='>=3.10',
    packages=find_packages(include=['wcpg_ros', 'wcpg_ros.*', 'sim_node', 'sim_node.*']),
    package_data={'sim_node': ['scenes/*.yaml'], 'wcpg_ros.results': ['paper.yaml']},
    data_files=[
        ('share/ament_index/resource_index/packages', [f'resource/{PACKAGE}']),
        (f'share/{PACKAGE}', ['package.xml']),
        (f'share/{PACKAGE}/launch', glob('launch/*.launch.py')),
        (f'share/{PACKAGE}/config', glob('config/*')),
        (f'share/{PACKAGE}/models', glob('models/*.safetensors')),
    ],
    install_requires=DRIVE,
    extras_require=EXTRAS,
    zip_safe=False,
    entry_points={
        'console_scripts': [
            'evaluate = wcpg_ros.evaluate:main',
            'train = wcpg_ros.train:main',
            'render = wcpg_ros.render:main',
            'record = wcpg_ros.record:main',
            'bag = wcpg_ros.bag:main',
            'baseline = wcpg_ros.baselines.train:main',
            'sim = sim_node.__main__:main',
            'wcpg = wcpg_ros.__main__:main',
        ],
        'pytest11': ['wcpg_ros = wcpg_ros.testing'],     # the fixture `traffic_scene`
    },
)
