package podinputs

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func service(namespace, name, ip string, ports ...v1.ServicePort) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1.ServiceSpec{ClusterIP: ip, Ports: ports}}
}

func TestServiceVariables(t *testing.T) {
	var got []string
	for _, v := range serviceEnv([]*v1.Service{
		service("shop", "the-db", "10.0.0.2", v1.ServicePort{Name: "sql-in", Port: 5432, Protocol: v1.ProtocolTCP},
			v1.ServicePort{Port: 53, Protocol: v1.ProtocolUDP}),
		service("shop", "six", "fd00::2", v1.ServicePort{Port: 80}),
		service("shop", "headless", v1.ClusterIPNone, v1.ServicePort{Port: 80}),
		service("shop", "elsewhere", "", v1.ServicePort{Port: 80}),
		service("shop", "no-ports", "10.0.0.9"),
	}) {
		got = append(got, v.Name+"="+v.Value)
	}
	want := []string{
		"THE_DB_SERVICE_HOST=10.0.0.2", "THE_DB_SERVICE_PORT=5432", "THE_DB_SERVICE_PORT_SQL_IN=5432",
		"THE_DB_PORT=tcp://10.0.0.2:5432",
		"THE_DB_PORT_5432_TCP=tcp://10.0.0.2:5432", "THE_DB_PORT_5432_TCP_PROTO=tcp", "THE_DB_PORT_5432_TCP_PORT=5432",
		"THE_DB_PORT_5432_TCP_ADDR=10.0.0.2",
		"THE_DB_PORT_53_UDP=udp://10.0.0.2:53", "THE_DB_PORT_53_UDP_PROTO=udp", "THE_DB_PORT_53_UDP_PORT=53",
		"THE_DB_PORT_53_UDP_ADDR=10.0.0.2",
		"SIX_SERVICE_HOST=fd00::2", "SIX_SERVICE_PORT=80", "SIX_PORT=tcp://[fd00::2]:80",
		"SIX_PORT_80_TCP=tcp://[fd00::2]:80", "SIX_PORT_80_TCP_PROTO=tcp", "SIX_PORT_80_TCP_PORT=80",
		"SIX_PORT_80_TCP_ADDR=fd00::2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
}

// The container's own variables take precedence over those of services.
func TestOwnVariablesPrecedeServiceVariables(t *testing.T) {
	c, in := envHarness(t,
		`{env: [{name: DB_SERVICE_PORT, value: mine}, {name: AT, value: "$(DB_SERVICE_HOST):$(DB_SERVICE_PORT)"}]}`)
	in.services = []*v1.Service{service("shop", "db", "10.0.0.2", v1.ServicePort{Port: 1})}
	env, err := resolveEnv(c, in)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, e := range env {
		values[e.Name] = e.Value
	}
	if values["AT"] != "10.0.0.2:mine" || values["DB_SERVICE_PORT"] != "mine" || values["DB_SERVICE_HOST"] != "10.0.0.2" {
		t.Errorf("%v", values)
	}
}
