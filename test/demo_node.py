"""A small node with something of everything, for the tests of the ros2 command."""

import rclpy
from rcl_interfaces.msg import FloatingPointRange, ParameterDescriptor
from rclpy.executors import ExternalShutdownException
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import SetBool

ALPHA = ParameterDescriptor(description='how much risk to take',
                            floating_point_range=[FloatingPointRange(from_value=0.01, to_value=1.0)])


def main() -> None:
    """Publish at 50 Hz until told to stop."""
    rclpy.init()
    node = rclpy.create_node('demo')
    node.declare_parameter('alpha', 0.5, ALPHA)
    node.declare_parameter('seed', 3)
    node.declare_parameter('limits.jerk', 2.0)
    node.declare_parameter('names', ['a', 'b'])
    numbers = node.create_publisher(Float64MultiArray, 'numbers', 10)
    latched = node.create_publisher(String, 'latched', QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL))
    latched.publish(String(data='once'))
    node.create_subscription(String, 'words', lambda message: print('heard', message.data, flush=True), 10)

    def run(request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        response.success, response.message = request.data, 'as you wish'
        return response

    node.create_service(SetBool, 'run', run)
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1
        numbers.publish(Float64MultiArray(data=[float(count), 2.5, 3.0]))

    node.create_timer(0.02, tick)
    print('ready', {name: node.get_parameter(name).value for name in ('alpha', 'seed', 'limits.jerk', 'names')},
          node.get_fully_qualified_name(), flush=True)
    try:
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        print('stopped', flush=True)
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


if __name__ == '__main__':
    main()
