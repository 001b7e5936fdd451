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
        self.state = {}
        self.commands = self.create_publisher(AccelStamped, 'ego/acceleration_command', 10)
        self.create_subscription(Odometry, 'ego/odometry', lambda message: self.take(ego=message), 1)
        self.create_subscription(MultiDOFJointState, 'vehicles', lambda message: self.take(others=message), 1)

    def take(self, **part):
        self.state.update(part)
        if len({str(message.header.stamp) for message in self.state.values()}) == 1 and len(self.state) == 2:
            self.answer(self.state['ego'], self.state['others'])     # both halves of one state are there

    def answer(self, ego, others):
        waits = ego.pose.pose.position.y < -7.0 and any(-8.0 < car.translation.y < 150.0 for car in others.transforms)
        command = AccelStamped(header=others.header)     # the same stamp: it answers this state
        command.header.frame_id = 'base_link'
        command.accel.linear.x = -4.0 if waits else 4.0
        self.commands.publish(command)


def main():
    rclpy.init()
    rclpy.spin(PatientDriver())


if __name__ == '__main__':
    main()
