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

// target is the container that an action is about. Its ports may be named.
type target struct {
	container *v1.Container
	id        string
	// ip is the pod's, empty if it has none.
	ip string
}

// address is where an action connects to: the host that it names, else the pod.
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

// portNumber finds a port that may be named in the container's ports.
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
		return 0, fmt.Errorf("port %q is neither a number from 1 to 65535 nor the name of a port of container %q", port.String(), c.Name)
	}
	return number, nil
}

// dialer makes connections that leave nothing behind: without SO_LINGER
// frequent probes would pile up sockets in TIME_WAIT (kubelet: 1 s, too).
func dialer() *net.Dialer {
	return &net.Dialer{KeepAlive: -1, Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			// A socket that cannot is one that waits; the probe is none the worse.
			_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1, Linger: 1})
		})
	}}
}
