package validation

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestService(t *testing.T) {
	for text, want := range map[string]string{
		"selector: {app: db}, ports: [{port: 5432}]":                                  "",
		"selector: {app: db}, ports: [{port: 80, targetPort: 80}], type: ClusterIP":   "",
		"selector: {app: db}, clusterIP: None, ports: [{port: 80, targetPort: http}]": "",
		"selector: {app: db}, clusterIP: None":                                        "",
		"type: ExternalName, externalName: db.example.com":                            "",
		"selector: {app: db}, ipFamilies: [IPv4], sessionAffinity: None":              "",
		"selector: {app: db}, ports: [{port: 80, targetPort: 8080}]": "spec.ports[0].targetPort write " +
			"that number as port",
		"selector: {app: db}, ports: [{port: 80, targetPort: http}]": "spec.ports[0].targetPort " +
			"clusterIP: None",
		"selector: {app: db}, ports: [{port: 80}, {port: 81}]":                   "spec.ports[0].name several ports",
		"selector: {app: db}, ports: [{port: 80, name: a}, {port: 81, name: a}]": "spec.ports[1].name different",
		"selector: {app: db}, ports: [{port: 0}]":                                "spec.ports[0].port 1 and 65535",
		"selector: {app: db}, ports: [{port: 80, nodePort: 30000}]":              "spec.ports[0].nodePort hostPort",
		"selector: {app: db}, ports: [{port: 80, protocol: ICMP}]": "spec.ports[0].protocol TCP, " +
			"UDP or SCTP",
		"selector: {app: db}, type: NodePort":     "spec.type hostPort",
		"selector: {app: db}, type: LoadBalancer": "spec.type hostPort",
		"selector: {app: db}, type: Other": "spec.type ClusterIP or " +
			"ExternalName",
		"selector: {app: db}, clusterIP: 10.96.0.9":                                       "spec.clusterIP None",
		"selector: {app: db}, clusterIPs: [10.96.0.9]":                                    "spec.clusterIPs[0] remove",
		"selector: {app: db}, sessionAffinity: ClientIP":                                  "spec.sessionAffinity remove",
		"selector: {app: db}, externalIPs: [192.0.2.1]":                                   "spec.externalIPs hostPort",
		"selector: {app: db}, ipFamilies: [IPv5]":                                         "spec.ipFamilies[0] IPv4 or IPv6",
		"ports: [{port: 80}]":                                                             "spec.selector labels of the pods",
		"type: ExternalName":                                                              "spec.externalName DNS name",
		"selector: {app: db}, internalTrafficPolicy: Local, ports: [{port: 1}]":           "warning spec.internalTrafficPolicy no effect",
		"selector: {app: db}, ipFamilyPolicy: PreferDualStack, trafficDistribution: Same": "warning spec.trafficDistribution no effect",
	} {
		var service v1.Service
		if err := yaml.UnmarshalStrict([]byte("metadata: {name: db}\nspec: {"+text+"}"), &service); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		SetObjectDefaults(&service)
		var got []string
		for _, fault := range CheckObject("Service", &service) {
			got = append(got, fault.Path+" "+fault.Problem+" "+fault.Remedy)
		}
		for _, fault := range ObjectWarnings(&service) {
			got = append(got, "warning "+fault.Path+" "+fault.Problem+" "+fault.Remedy)
		}
		if want == "" && len(got) > 0 {
			t.Errorf("%s: %q", text, got)
			continue
		}
		all := strings.Join(got, "\n")
		path, words, _ := strings.Cut(strings.TrimPrefix(want, "warning "), " ")
		if strings.HasPrefix(want, "warning ") {
			path = "warning " + path
		}
		if want != "" && (!strings.HasPrefix(all, path+" ") || !strings.Contains(all, words)) {
			t.Errorf("%s:\n%s\nwant %s", text, all, want)
		}
	}
}

func TestNameOfService(t *testing.T) {
	for name, valid := range map[string]bool{"db": true, "9db": false, "db.shop": false, "": false} {
		service := &v1.Service{Spec: v1.ServiceSpec{Selector: map[string]string{"app": "db"}}}
		service.Name = name
		SetObjectDefaults(service)
		if faults := CheckObject("Service", service); (len(faults) == 0) != valid {
			t.Errorf("%q: %+v", name, faults)
		}
	}
}
