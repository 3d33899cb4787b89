package admit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestCheck(t *testing.T) {
	node := Node{
		Name:          "edge",
		Labels:        map[string]string{"disk": "ssd", "cores": "4", "kubernetes.io/hostname": "edge"},
		UnsafeSysctls: []string{"net.core.somaxconn", "kernel.msg*"},
		Host:          Host{Kernel: "4.9.0-13-amd64"},
	}
	const affinity = `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: `
	for name, tc := range map[string]struct {
		spec   string
		reason string
		words  string
	}{
		"nothing":  {`{}`, "", ""},
		"selector": {`{nodeSelector: {disk: ssd, kubernetes.io/hostname: edge}}`, "", ""},
		"selector without the label": {`{nodeSelector: {disk: ssd, zone: a, gpu: "yes"}}`, ReasonAffinity,
			"--node-labels=gpu=yes,zone=a"},
		"selector with another value": {`{nodeSelector: {disk: hdd}}`, ReasonAffinity, "not labelled disk=hdd"},
		"term": {`{` + affinity +
			`[{matchExpressions: [{key: disk, operator: In, values: [hdd, ssd]}, {key: zone, operator: DoesNotExist}, {key: zone, operator: NotIn, values: [a]}]}]}}}}`, "", ""},
		"numbers": {`{` + affinity +
			`[{matchExpressions: [{key: cores, operator: Gt, values: ["3"]}, {key: cores, operator: Lt, values: ["5"]}, {key: disk, operator: Exists}]}]}}}}`, "", ""},
		"number that is not greater": {`{` + affinity +
			`[{matchExpressions: [{key: cores, operator: Gt, values: ["4"]}]}]}}}}`, ReasonAffinity, "(cores Gt 4)"},
		"no number": {`{` + affinity +
			`[{matchExpressions: [{key: disk, operator: Lt, values: ["4"]}]}]}}}}`, ReasonAffinity, "(disk Lt 4)"},
		"one of two terms": {`{` + affinity +
			`[{matchExpressions: [{key: zone, operator: Exists}]}, {matchFields: [{key: metadata.name, operator: In, values: [edge]}]}]}}}}`, "", ""},
		"neither term": {`{` + affinity +
			`[{matchExpressions: [{key: disk, operator: NotIn, values: [ssd]}]}, {matchFields: [{key: metadata.name, operator: In, values: [other]}]}, {}]}}}}`, ReasonAffinity, "(disk NotIn ssd; metadata.name In other; a term is empty)"},
		"label that must not be there": {`{` + affinity + `[{matchExpressions: [{key: disk, operator: DoesNotExist}]}]}}}}`,
			ReasonAffinity, "(disk DoesNotExist)"},
		"preference": {
			`{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: zone, operator: Exists}]}}]}}}`, "", ""},

		"safe sysctls": {
			`{securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: "0"}, {name: net/ipv4/tcp_fin_timeout, value: "9"}]}}`, "", ""},
		"allowed sysctls": {
			`{securityContext: {sysctls: [{name: net.core.somaxconn, value: "9"}, {name: kernel.msgmax, value: "9"}]}}`, "", ""},
		"sysctl of a later kernel": {`{securityContext: {sysctls: [{name: net.ipv4.tcp_rmem, value: "1 2 3"}]}}`,
			ReasonSysctl,
			"sysctls[0]: net.ipv4.tcp_rmem is not namespaced before Linux 4.15, and this kernel is 4.9.0-13-amd64"},
		"sysctl that is not allowed": {
			`{securityContext: {sysctls: [{name: kernel.msgmax, value: "9"}, {name: net/core/rmem_max, value: "9"}]}}`,
			ReasonSysctl, "sysctls[1]: net/core/rmem_max is not among the safe kernel parameters; start podstead with " +
				"--allowed-unsafe-sysctls=net.core.rmem_max"},
		"sysctl of the host": {`{securityContext: {sysctls: [{name: vm.swappiness, value: "9"}]}}`, ReasonSysctl,
			"set it on the host"},

		"no AppArmor": {`{securityContext: {appArmorProfile: {type: RuntimeDefault}}}`, ReasonAppArmor,
			"spec.securityContext.appArmorProfile: AppArmor is not enabled"},
		"no AppArmor, container": {
			`{containers: [{name: a}], initContainers: [{name: i, securityContext: {appArmorProfile: {type: Localhost, localhostProfile: p}}}]}`, ReasonAppArmor, "spec.initContainers[0].securityContext.appArmorProfile"},
		"unconfined needs AppArmor": {`{securityContext: {appArmorProfile: {type: Unconfined}}}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var pod v1.Pod
			if err := yaml.UnmarshalStrict([]byte(tc.spec), &pod.Spec); err != nil {
				t.Fatal(err)
			}
			got := Check(&pod, &node)
			switch {
			case tc.reason == "" && got != nil:
				t.Errorf("denied: %+v", got)
			case tc.reason != "" && (got == nil || got.Reason != tc.reason || !strings.Contains(got.Message, tc.words)):
				t.Errorf("got %+v, want %s with %q", got, tc.reason, tc.words)
			}
			confined := node
			confined.AppArmor = true
			if got := Check(&pod, &confined); tc.reason == ReasonAppArmor && got != nil {
				t.Errorf("denied where there is AppArmor: %+v", got)
			}
		})
	}
}

func TestFindHost(t *testing.T) {
	dir := t.TempDir()
	if got := FindHost(dir, dir); got != (Host{}) {
		t.Errorf("got %+v of an empty host", got)
	}
	for file, text := range map[string]string{"sys/kernel/osrelease": "6.1.0\n",
		"module/apparmor/parameters/enabled": "Y\n", "fs/selinux/enforce": "1"} {
		file = filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := FindHost(dir, dir); got != (Host{Kernel: "6.1.0", AppArmor: true, SELinux: true}) {
		t.Errorf("got %+v", got)
	}
	if got := WellKnownLabels("edge"); got["kubernetes.io/hostname"] != "edge" || got["kubernetes.io/os"] != "linux" ||
		got["kubernetes.io/arch"] == "" {
		t.Errorf("labels %v", got)
	}
}
