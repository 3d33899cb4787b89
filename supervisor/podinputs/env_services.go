package podinputs

import (
	"net"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
)

// serviceEnv returns the environment variables of services, by the kubelet's rules:
// NAME_SERVICE_HOST and NAME_SERVICE_PORT, and those that Docker set for links. A
// service without a cluster IP has none.
func serviceEnv(services []*v1.Service) (env []cri.EnvVar) {
	add := func(name, value string) { env = append(env, cri.EnvVar{Name: name, Value: value}) }
	for _, s := range services {
		ip := s.Spec.ClusterIP
		if ip == "" || ip == v1.ClusterIPNone || len(s.Spec.Ports) == 0 {
			continue
		}
		prefix := variableName(s.Name)
		add(prefix+"_SERVICE_HOST", ip)
		add(prefix+"_SERVICE_PORT", strconv.Itoa(int(s.Spec.Ports[0].Port)))
		for i := range s.Spec.Ports {
			if p := &s.Spec.Ports[i]; p.Name != "" {
				add(prefix+"_SERVICE_PORT_"+variableName(p.Name), strconv.Itoa(int(p.Port)))
			}
		}
		for i := range s.Spec.Ports {
			p := &s.Spec.Ports[i]
			protocol, port := string(v1.ProtocolTCP), strconv.Itoa(int(p.Port))
			if p.Protocol != "" {
				protocol = string(p.Protocol)
			}
			lower := strings.ToLower(protocol)
			address := lower + "://" + net.JoinHostPort(ip, port)
			if i == 0 {
				add(prefix+"_PORT", address)
			}
			link := prefix + "_PORT_" + port + "_" + strings.ToUpper(protocol)
			add(link, address)
			add(link+"_PROTO", lower)
			add(link+"_PORT", port)
			add(link+"_ADDR", ip)
		}
	}
	return env
}

func variableName(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }
