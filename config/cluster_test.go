package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A node of a cluster opens its port and authenticates clients with the cluster, unless
// disabled.
func TestNodeOfAClusterIsSecure(t *testing.T) {
	dir := t.TempDir()
	kubeconfig, config := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "config.yaml")
	for path, text := range map[string]string{kubeconfig: "", config: `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {webhook: {enabled: false, cacheTTL: 1m}}
authorization: {mode: AlwaysAllow, webhook: {cacheAuthorizedTTL: 3m, cacheUnauthorizedTTL: 4s}}
rotateCertificates: false
serverTLSBootstrap: true
`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o, notices, err := complete(t, "--kubeconfig", kubeconfig)
	if r := o.Remote.Reviews; err != nil || o.Remote.Address != "0.0.0.0:10250" || o.Remote.Port() != 10250 || !r.Tokens ||
		!r.Rights ||
		r.TokenTTL != 2*time.Minute || r.AllowedTTL != 5*time.Minute || r.DeniedTTL != 30*time.Second {
		t.Errorf("defaults: %q %+v, %v", o.Remote.Address, r, err)
	}
	if len(notices) != 1 || !strings.Contains(notices[0], "--client-ca-file") {
		t.Errorf("notices: %v", notices)
	}
	if c := o.Cluster.Certificates; !c.Rotate || c.RotateServing || c.Dir != "/var/lib/podstead/pki" {
		t.Errorf("certificates: %+v", c)
	}
	if o, notices, err = complete(t, "--kubeconfig", kubeconfig, "--port=0"); err != nil || o.Remote.Address != "" ||
		len(notices) > 0 {
		t.Errorf("without a port: %q, %v, %v", o.Remote.Address, notices, err)
	}
	o, _, err = complete(t, "--kubeconfig", kubeconfig, "--config", config)
	if r := o.Remote.Reviews; err != nil || r.Tokens || r.Rights || r.TokenTTL != time.Minute ||
		r.AllowedTTL != 3*time.Minute || r.DeniedTTL != 4*time.Second {
		t.Errorf("from the file: %+v, %v", r, err)
	}
	if c := o.Cluster.Certificates; c.Rotate || !c.RotateServing {
		t.Errorf("certificates from the file: %+v", c)
	}
	if o, _, err = complete(t, "--config", config, "--authorization-mode=Webhook"); err != nil ||
		!o.Remote.Reviews.Rights || o.Remote.Address != "" {
		t.Errorf("without a cluster: %+v, %v", o.Remote, err)
	}
	boot := filepath.Join(dir, "boot")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--bootstrap-kubeconfig", boot}, "--bootstrap-kubeconfig: requires --kubeconfig"},
		{[]string{"--kubeconfig", dir + "/none"}, "or set --bootstrap-kubeconfig"},
		{[]string{"--kubeconfig", dir + "/none", "--bootstrap-kubeconfig", boot}, "it is required as long as --kubeconfig"},
		{[]string{"--kubeconfig", kubeconfig, "--bootstrap-kubeconfig", boot}, ""},
		{[]string{"--kubeconfig", kubeconfig, "--rotate-server-certificates", "--tls-cert-file=/c",
			"--tls-private-key-file=/k"}, "mutually exclusive"},
		{[]string{"--authorization-mode=RBAC"}, "must be Webhook or AlwaysAllow"},
		{[]string{"--authentication-token-webhook-cache-ttl=-1s"}, "must be 0 or more"},
	} {
		if _, _, err := complete(t, c.args...); c.want == "" && err != nil || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
	if err := os.WriteFile(boot, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := complete(t, "--kubeconfig", dir+"/none", "--bootstrap-kubeconfig", boot); err != nil {
		t.Errorf("with a bootstrap: %v", err)
	}
}

// The policy of images is one of a cluster: without one it has no effect, which is said.
func TestImageVerification(t *testing.T) {
	dir := t.TempDir()
	kubeconfig, config := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(kubeconfig, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ fields, mode, list, notice string }{
		{"", "NeverVerifyPreloadedImages", "<nil>", ""},
		{"imagePullCredentialsVerificationPolicy: \"\"\n", "NeverVerifyPreloadedImages", "<nil>", ""},
		{"imagePullCredentialsVerificationPolicy: NeverVerify\n", "NeverVerify", "<nil>", ""},
		{"imagePullCredentialsVerificationPolicy: AlwaysVerify\n", "AlwaysVerify", "<nil>",
			"imagePullCredentialsVerificationPolicy"},
		{"imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: " +
			"[r.test/*]\n", "NeverVerifyAllowlistedImages", "[r.test/*]", "imagePullCredentialsVerificationPolicy"},
	} {
		if err := os.WriteFile(config,
			[]byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+c.fields), 0o600); err != nil {
			t.Fatal(err)
		}
		o, _, err := complete(t, "--kubeconfig", kubeconfig, "--config", config)
		if err != nil {
			t.Fatal(err)
		}
		got := reportedBy(t, o)
		if mode, list := got["imagePullCredentialsVerificationPolicy"],
			fmt.Sprint(got["preloadedImagesVerificationAllowlist"]); mode != c.mode || list != c.list {
			t.Errorf("%q: reported %v %s, want %s %s", c.fields, mode, list, c.mode, c.list)
		}
		again, notices, err := restart(t, got, "--kubeconfig", kubeconfig)
		if err != nil || strings.Contains(fmt.Sprint(notices), "erification") {
			t.Errorf("%q: %v (%v)", c.fields, notices, err)
		} else if d := cmp.Diff(got, reportedBy(t, again)); d != "" {
			t.Error(d)
		}
		_, notices, err = complete(t, "--config", config)
		if said := strings.Contains(fmt.Sprint(notices),
			"no effect without --kubeconfig: imagePullCredentialsVerificationPolicy"); err != nil || said != (c.notice != "") {
			t.Errorf("%q without a cluster: %v (%v)", c.fields, notices, err)
		}
	}
}
