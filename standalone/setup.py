"""Build description of the `ros2` command and the launch API for a machine with no ROS 2 distribution."""

from setuptools import setup

setup(
    name='wcpg-ros-standalone',
    version='0.1.0',
    description='The ros2 command and the launch API that wcpg_ros needs, for a machine with no ROS 2 distribution',
    author='wcpg_ros maintainers',
    maintainer='wcpg_ros maintainers',
    maintainer_email='maintainers@wcpg-ros.example',
    license='Apache-2.0',
    python_requires='>=3.10',
    packages=['launch', 'launch.actions', 'launch.events', 'launch_ros', 'ros2_standalone'],
    package_data={'ros2_standalone': ['quick_discovery.xml']},
    install_requires=['PyYAML>=6,<7'],   # rclpy, the messages and the bag libraries come with wcpg_ros[ros,bags]
    entry_points={'console_scripts': ['ros2 = ros2_standalone.cli:main']},
)
