package config

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
	if r := o.Cluster.Registration; err != nil || len(notices) > 0 || !r.Register || r.Taints != nil ||
		r.StatusUpdate != 10*time.Second || r.StatusReport != 5*time.Minute || r.Lease != 40*time.Second || r.Images != 50 {
		t.Errorf("defaults: %+v, %v, %v", r, notices, err)
	}
	o, notices, err = complete(t, "--kubeconfig", kubeconfig, "--client-ca-file=/ca.crt", "--config", file)
	r := o.Cluster.Registration
	want := []v1.Taint{{Key: "only", Value: "edge", Effect: v1.TaintEffectNoExecute},
		{Key: "gone", Effect: v1.TaintEffectNoSchedule}}
	if err != nil || len(notices) > 0 || r.Register || !slices.Equal(r.Taints, want) || r.ProviderID != "file://1" ||
		r.StatusUpdate != 20*time.Second || r.StatusReport != 20*time.Second || r.Lease != time.Minute || r.Images != 10 {
		t.Errorf("from the file: %+v, %v, %v", r, notices, err)
	}
	reported := o.KubeletConfiguration(RuntimeDefaults{})
	if reported["nodeLeaseDurationSeconds"] != 60 || reported["registerNode"] != false ||
		reported["nodeStatusReportFrequency"] != "20s" {
		t.Errorf("reported: %v", reported)
	}
	o, _, err = complete(t, "--kubeconfig", kubeconfig, "--client-ca-file=/ca.crt", "--config", file, "--register-node",
		"--register-with-taints", "a=b:PreferNoSchedule", "--provider-id", "flag://1")
	if r := o.Cluster.Registration; err != nil || !r.Register ||
		!slices.Equal(r.Taints, []v1.Taint{{Key: "a", Value: "b", Effect: "PreferNoSchedule"}}) ||
		r.ProviderID != "flag://1" {
		t.Errorf("from flags: %+v, %v", r, err)
	}
	_, notices, err = complete(t, "--config", file, "--provider-id=x")
	if err != nil || len(notices) != 1 || !strings.Contains(notices[0], "registerWithTaints, providerID, "+
		"nodeStatusUpdateFrequency, nodeLeaseDurationSeconds, nodeStatusMaxImages, --provider-id") {
		t.Errorf("without a cluster: %q, %v", notices, err)
	}

	for flag, want := range map[string]string{
		"--register-with-taints=a=b":                         `"a=b": must be key=value:effect`,
		"--register-with-taints=a:NoWay":                     `effect "NoWay": must be NoSchedule`,
		"--register-with-taints=a=b c:NoExecute":             `value "b c"`,
		"--register-with-taints=:NoExecute":                  `key ""`,
		"--register-with-taints=a=1:NoExecute,a=2:NoExecute": "duplicate taint a:NoExecute",
		"--node-labels=node-role.kubernetes.io/worker=": "--node-labels: node-role.kubernetes.io/worker: " +
			"a node may not set this label",
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

// Flags take precedence over the file; 0 is the default.
func TestRates(t *testing.T) {
	dir := t.TempDir()
	file, kubeconfig := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "kubeconfig")
	for path, text := range map[string]string{kubeconfig: "", file: `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
kubeAPIQPS: 7
kubeAPIBurst: 8
eventRecordQPS: 9
eventBurst: 0
`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		args []string
		want [4]int
	}{
		{nil, [4]int{50, 100, 50, 100}},
		{[]string{"--config", file}, [4]int{7, 8, 9, 100}},
		{[]string{"--config", file, "--kube-api-qps=70", "--kube-api-burst=0", "--event-qps=90", "--event-burst=91"},
			[4]int{70, 100, 90, 91}},
	} {
		o, notices, err := complete(t, append(test.args, "--kubeconfig", kubeconfig, "--client-ca-file=/ca.crt")...)
		r := o.Cluster.Rates
		if got := [4]int{r.APIQPS, r.APIBurst, r.EventQPS, r.EventBurst}; err != nil || len(notices) > 0 || got != test.want {
			t.Errorf("%v: %v, %v, %v, want %v", test.args, got, notices, err, test.want)
		}
		if reported := o.KubeletConfiguration(RuntimeDefaults{}); reported["kubeAPIQPS"] != test.want[0] ||
			reported["eventBurst"] != test.want[3] {
			t.Errorf("%v: reported %v", test.args, reported)
		}
	}
	_, notices, err := complete(t, "--config", file, "--event-qps=3")
	if err != nil || len(notices) != 1 ||
		!strings.Contains(notices[0], "kubeAPIQPS, kubeAPIBurst, eventRecordQPS, --event-qps") {
		t.Errorf("without a cluster: %v, %v", notices, err)
	}
	if _, _, err := complete(t, "--kubeconfig", kubeconfig, "--event-burst=-1"); err == nil ||
		!strings.Contains(err.Error(), "--event-burst (eventBurst): -1: must be 0 or more") {
		t.Errorf("a negative limit: %v", err)
	}
}

func TestCloudProvider(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for provider, want := range map[string]bool{"external": true, "": false} {
		if o, _, err := complete(t, "--kubeconfig", kubeconfig, "--cloud-provider", provider); err != nil ||
			o.Cluster.ExternalCloud != want {
			t.Errorf("%q: %+v, %v", provider, o.Cluster.Registration, err)
		}
	}
	if _, _, err := complete(t, "--kubeconfig", kubeconfig, "--cloud-provider=aws"); err == nil ||
		!strings.Contains(err.Error(), `--cloud-provider: "aws": must be external`) {
		t.Errorf("another provider: %v", err)
	}
	if _, notices, err := complete(t, "--cloud-provider=external"); err != nil || len(notices) != 1 ||
		!strings.Contains(notices[0], "--cloud-provider") {
		t.Errorf("without a cluster: %v, %v", notices, err)
	}
}
