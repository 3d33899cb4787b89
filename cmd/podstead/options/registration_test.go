package options

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

const registrationFields = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
registerNode: false
registerWithTaints: [{key: only, value: edge, effect: NoExecute}, {key: gone, effect: NoSchedule}]
providerID: file://1
nodeStatusUpdateFrequency: 20s
nodeLeaseDurationSeconds: 60
nodeStatusMaxImages: 10
`

func TestRegistration(t *testing.T) {
	dir := t.TempDir()
	file, kubeconfig := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "kubeconfig")
	for path, text := range map[string]string{file: registrationFields, kubeconfig: ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o, notices, err := complete(t, "--kubeconfig", kubeconfig, "--client-ca-file=/ca.crt")
	if r := o.Cluster.Registration; err != nil || len(notices) > 0 || !r.Register || r.Taints != nil || r.StatusUpdate != 10*time.Second || r.StatusReport != 5*time.Minute || r.Lease != 40*time.Second || r.Images != 50 {
		t.Errorf("defaults: %+v, %v, %v", r, notices, err)
	}
	o, notices, err = complete(t, "--kubeconfig", kubeconfig, "--client-ca-file=/ca.crt", "--config", file)
	r := o.Cluster.Registration
	want := []v1.Taint{{Key: "only", Value: "edge", Effect: v1.TaintEffectNoExecute}, {Key: "gone", Effect: v1.TaintEffectNoSchedule}}
	if err != nil || len(notices) > 0 || r.Register || !slices.Equal(r.Taints, want) || r.ProviderID != "file://1" ||
		r.StatusUpdate != 20*time.Second || r.StatusReport != 20*time.Second || r.Lease != time.Minute || r.Images != 10 {
		t.Errorf("from the file: %+v, %v, %v", r, notices, err)
	}
	reported := o.KubeletConfiguration(RuntimeDefaults{})
	if reported["nodeLeaseDurationSeconds"] != 60 || reported["registerNode"] != false || reported["nodeStatusReportFrequency"] != "20s" {
		t.Errorf("reported: %v", reported)
	}
	o, _, err = complete(t, "--kubeconfig", kubeconfig, "--client-ca-file=/ca.crt", "--config", file, "--register-node", "--register-with-taints", "a=b:PreferNoSchedule", "--provider-id", "flag://1")
	if r := o.Cluster.Registration; err != nil || !r.Register || !slices.Equal(r.Taints, []v1.Taint{{Key: "a", Value: "b", Effect: "PreferNoSchedule"}}) || r.ProviderID != "flag://1" {
		t.Errorf("from flags: %+v, %v", r, err)
	}
	_, notices, err = complete(t, "--config", file, "--provider-id=x")
	if err != nil || len(notices) != 1 || !strings.Contains(notices[0], "registerWithTaints, providerID, nodeStatusUpdateFrequency, nodeLeaseDurationSeconds, nodeStatusMaxImages, --provider-id") {
		t.Errorf("without a cluster: %q, %v", notices, err)
	}

	for flag, want := range map[string]string{
		"--register-with-taints=a=b":                                     `"a=b": must be key=value:effect`,
		"--register-with-taints=a:NoWay":                                 `effect "NoWay": must be NoSchedule`,
		"--register-with-taints=a=b c:NoExecute":                         `value "b c"`,
		"--register-with-taints=:NoExecute":                              `key ""`,
		"--register-with-taints=a=1:NoExecute,a=2:NoExecute":             "duplicate taint a:NoExecute",
		"--node-labels=node-role.kubernetes.io/worker=":                  "--node-labels: node-role.kubernetes.io/worker: a node may not set this label",
		"--node-labels=node-restriction.kubernetes.io/x=1":               "node-restriction.kubernetes.io/x",
		"--node-labels=x.k8s.io/a=1":                                     "x.k8s.io/a",
		"--node-labels=disk=ssd,a.node.kubernetes.io/b=1,c.other.io/k=1": "",
		"--node-labels=topology.kubernetes.io/zone=a":                    "",
	} {
		_, _, err := complete(t, "--kubeconfig", kubeconfig, "--client-ca-file=/ca.crt", flag)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", flag, err, want)
		}
	}
	// Without a cluster any label is allowed.
	if _, _, err := complete(t, "--node-labels=node-role.kubernetes.io/worker="); err != nil {
		t.Error(err)
	}
}
