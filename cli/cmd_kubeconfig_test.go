package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/podstead/podstead/api"
)

func granted(server string) *access {
	return &access{Kubeconfig: api.Kubeconfig{Node: "edge", User: "podstead-read", Role: "read", Server: server,
		CertificateAuthority: "ca", ClientCertificate: "cert", ClientKey: "key"}}
}

func TestKubeconfigFormat(t *testing.T) {
	data, err := yaml.Marshal(granted("https://127.0.0.1:10250").merge(nil))
	if err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: Y2E=
    server: https://127.0.0.1:10250
  name: podstead-edge-read
contexts:
- context:
    cluster: podstead-edge-read
    user: podstead-edge-read
  name: podstead-edge-read
current-context: podstead-edge-read
kind: Config
preferences: {}
users:
- name: podstead-edge-read
  user:
    client-certificate-data: Y2VydA==
    client-key-data: a2V5
`
	if string(data) != want {
		t.Errorf("got\n%s", data)
	}
}

func TestKubeconfigMergesIntoFile(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "sub", "config"), filepath.Join(dir, "link")
	if current, err := granted("https://127.0.0.1:1").mergeInto(path); err != nil || current != "podstead-edge-read" {
		t.Fatalf("into a new file: %q, %v", current, err)
	}
	existing := `apiVersion: v1
kind: Config
current-context: prod
clusters: [{name: prod, cluster: {server: "https://prod"}}, {name: podstead-edge-read, cluster: {server: "https://old"}}]
extensions: [{name: x, extension: {a: 1}}]
`
	if err := os.WriteFile(path, []byte(existing), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if current, err := granted("https://127.0.0.1:2").mergeInto(link); err != nil || current != "prod" {
		t.Fatalf("into an existing file: %q, %v", current, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"https://prod", "https://127.0.0.1:2", "current-context: prod", "extension",
		"client-key-data: a2V5"} {
		if !strings.Contains(string(data), words) {
			t.Errorf("no %q in\n%s", words, data)
		}
	}
	if strings.Contains(string(data), "https://old") {
		t.Errorf("the old entry of this name was kept:\n%s", data)
	}
	if fi, err := os.Lstat(link); err != nil || fi.Mode().Type() != os.ModeSymlink {
		t.Errorf("the symlink was replaced: %v, %v", fi.Mode(), err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v, %v", fi.Mode(), err)
	}
}

func TestKubeconfigRejectsOtherFiles(t *testing.T) {
	for name, text := range map[string]string{"another kind": "kind: Pod\n", "no map": "- a\n", "no YAML": "{"} {
		path := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := granted("x").mergeInto(path); err == nil || !strings.Contains(err.Error(), "left unchanged") {
			t.Errorf("%s: %v", name, err)
		}
		if data, _ := os.ReadFile(path); string(data) != text {
			t.Errorf("%s was overwritten: %s", name, data)
		}
	}
}

func TestKubeconfigForAnotherMachine(t *testing.T) {
	for url, want := range map[string]string{
		"https://edge.example.com:443":   "https://edge.example.com:443",
		"https://edge.example.com/":      "https://edge.example.com:8443",
		"https://[2001:db8::1]":          "https://[2001:db8::1]:8443",
		"http://edge.example.com":        "",
		"edge.example.com:10250":         "",
		"https://edge.example.com/x":     "",
		"https://a:b@edge.example.com":   "",
		"https://edge.example.com?x=y":   "",
		"https://":                       "",
		"https://edge example.com:10250": "",
	} {
		err := checkServer(url)
		if want == "" {
			if err == nil || !strings.Contains(err.Error(), "must be a URL with a host") {
				t.Errorf("%s: %v", url, err)
			}
			continue
		}
		a := granted("https://127.0.0.1:10250")
		a.ServerName, a.RemoteAddress = "node.podstead.internal", "0.0.0.0:8443"
		if err := errors.Join(err, a.useServer(kubeconfigCommand(), url)); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		data, err := yaml.Marshal(a.merge(nil))
		if err != nil || !strings.Contains(string(data),
			"    server: "+want+"\n    tls-server-name: node.podstead.internal\n") {
			t.Errorf("%s: %v\n%s", url, err, data)
		}
	}
	// A daemon without another port is no error: the port may be forwarded.
	a, cmd, stderr := granted("https://127.0.0.1:10250"), kubeconfigCommand(), &strings.Builder{}
	a.ServerName = "node.podstead.internal"
	cmd.SetErr(stderr)
	if err := a.useServer(cmd, "https://edge"); err != nil || a.Server != "https://edge:10250" ||
		!strings.Contains(stderr.String(), "start it with --address and --port") {
		t.Errorf("%s, %v, %s", a.Server, err, stderr)
	}
	if err := granted("x").useServer(cmd, "https://edge"); err == nil ||
		!strings.Contains(err.Error(), "restart the daemon") {
		t.Errorf("an earlier daemon: %v", err)
	}
}
