package probe

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// target is the container that an action applies to. Its ports may be named.
type target struct {
	container *v1.Container
	id        string
	// ip is the pod's, empty if it has none.
	ip string
}

// address returns the address that an action connects to: the host that it names,
// else the pod.
func (t *target) address(host string, port intstr.IntOrString) (string, error) {
	if host == "" {
		host = t.ip
	}
	if host == "" {
		return "", errors.New("the pod has no IP address")
	}
	number, err := portNumber(t.container, port)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(host, strconv.Itoa(number)), nil
}

// portNumber resolves a port that may be named in the container's ports.
func portNumber(c *v1.Container, port intstr.IntOrString) (int, error) {
	number := port.IntValue()
	if port.Type == intstr.String {
		for i := range c.Ports {
			if c.Ports[i].Name == port.StrVal {
				number = int(c.Ports[i].ContainerPort)
			}
		}
	}
	if number < 1 || number > 65535 {
		return 0, fmt.Errorf("port %q is neither a number from 1 to 65535 nor the name of a port of container %q",
			port.String(), c.Name)
	}
	return number, nil
}

// dialer creates connections that leave nothing behind: without SO_LINGER
// frequent probes would accumulate sockets in TIME_WAIT (kubelet: also 1 s).
func dialer() *net.Dialer {
	return &net.Dialer{KeepAlive: -1, Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			// If it fails, the socket only stays in TIME_WAIT; the probe is not
			// affected.
			_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1, Linger: 1})
		})
	}}
}
