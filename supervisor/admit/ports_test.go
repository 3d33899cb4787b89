package admit

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestPortTaken(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	with := func(ports ...v1.ContainerPort) *v1.Pod {
		return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{}, {Ports: ports}}}}
	}
	inInit := func(policy *v1.ContainerRestartPolicy) *v1.Pod {
		return &v1.Pod{Spec: v1.PodSpec{
			InitContainers: []v1.Container{{RestartPolicy: policy, Ports: []v1.ContainerPort{{HostPort: 80}}}}}}
	}
	holder := with(v1.ContainerPort{HostPort: 80},
		v1.ContainerPort{HostPort: 53, Protocol: v1.ProtocolUDP, HostIP: "10.0.0.1"}, v1.ContainerPort{ContainerPort: 99})
	holder.Namespace, holder.Name = "default", "first"
	for name, tc := range map[string]struct {
		pod  *v1.Pod
		want string
	}{
		"the same": {with(v1.ContainerPort{HostPort: 80, Protocol: v1.ProtocolTCP}),
			"hostPort 80 (TCP on 0.0.0.0) is in use by pod default/first"},
		"the second of two": {with(v1.ContainerPort{HostPort: 81}, v1.ContainerPort{HostPort: 80}), "hostPort 80"},
		"one address of all": {with(v1.ContainerPort{HostPort: 80, HostIP: "10.0.0.1"}),
			"hostPort 80 (TCP on 10.0.0.1)"},
		"all of one address": {with(v1.ContainerPort{HostPort: 53, Protocol: v1.ProtocolUDP}),
			"hostPort 53 (UDP on 0.0.0.0)"},
		"another address":         {with(v1.ContainerPort{HostPort: 53, Protocol: v1.ProtocolUDP, HostIP: "10.0.0.2"}), ""},
		"another protocol":        {with(v1.ContainerPort{HostPort: 80, Protocol: v1.ProtocolSCTP}), ""},
		"another port":            {with(v1.ContainerPort{HostPort: 8080, ContainerPort: 80}), ""},
		"no host port":            {with(v1.ContainerPort{ContainerPort: 80}, v1.ContainerPort{ContainerPort: 99}), ""},
		"a sidecar's":             {inInit(&always), "hostPort 80"},
		"an init container's own": {inInit(nil), ""},
	} {
		got := PortTaken(tc.pod, holder)
		switch {
		case tc.want == "" && got != nil, tc.want != "" && got == nil:
			t.Errorf("%s: %+v", name, got)
		case got != nil && (got.Reason != ReasonPorts || !strings.HasPrefix(got.Message, tc.want)):
			t.Errorf("%s: %+v", name, got)
		}
	}
}
