"""A controller for the unprotected left turn: waits before the crossing until nobody comes, then goes."""

import rclpy
from geometry_msgs.msg import AccelStamped
from nav_msgs.msg import Odometry
from rclpy.node import Node
from sensor_msgs.msg import MultiDOFJointState


class PatientDriver(Node):
    """Brakes until the oncoming lanes are empty for 150 m; once on the crossing it clears it."""

    def __init__(self):
        super().__init__('patient_driver')
        self.y = 0.0
        self.commands = self.create_publisher(AccelStamped, 'ego/acceleration_command', 10)
        self.create_subscription(Odometry, 'ego/odometry', self.remember, 1)
        self.create_subscription(MultiDOFJointState, 'vehicles', self.answer, 1)

    def remember(self, odometry):
        self.y = odometry.pose.pose.position.y

    def answer(self, vehicles):
        waits = self.y < -9.0 and any(-8.0 < pose.translation.y < 150.0 for pose in vehicles.transforms)
        command = AccelStamped(header=vehicles.header)     # the same stamp: it answers this state
        command.header.frame_id = 'base_link'
        command.accel.linear.x = -4.0 if waits else 4.0
        self.commands.publish(command)


def main():
    rclpy.init()
    rclpy.spin(PatientDriver())


if __name__ == '__main__':
    main()
