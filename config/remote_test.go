package config

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPortIsOpenedOnlyIfConfigured(t *testing.T) {
	file := func(body string) string {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+body),
			0o600); err != nil {
			t.Fatal(err)
		}
		return "--config=" + path
	}
	for _, c := range []struct {
		args     []string
		want     string
		readOnly string
	}{
		{nil, "", ""},
		{[]string{"--tls-min-version=VersionTLS13", "--read-only-port=0"}, "", ""},
		{[]string{"--token-auth-file=/t"}, "0.0.0.0:10250", ""},
		{[]string{"--client-ca-file=/t", "--port=1"}, "0.0.0.0:1", ""},
		{[]string{"--client-ca-file=/t", "--port=0"}, "", ""},
		{[]string{"--address=::1"}, "[::1]:10250", ""},
		{[]string{"--read-only-port=10255"}, "", "0.0.0.0:10255"},
		{[]string{file("port: 10251\naddress: 127.0.0.1\nreadOnlyPort: 10255")}, "127.0.0.1:10251", "127.0.0.1:10255"},
		{[]string{file("port: 10251"), "--port=0"}, "", ""},
		{[]string{file("port: 0\nauthentication: {x509: {clientCAFile: /ca.crt}}")}, "", ""},
		{[]string{file("authentication: {x509: {clientCAFile: /ca.crt}}")}, "0.0.0.0:10250", ""},
	} {
		o, _, err := complete(t, c.args...)
		if err != nil || o.Remote.Address != c.want || o.Remote.ReadOnlyAddress != c.readOnly {
			t.Errorf("%v: %q and %q, %v; want %q and %q", c.args, o.Remote.Address, o.Remote.ReadOnlyAddress, err, c.want,
				c.readOnly)
		}
	}
}

func TestRemoteSettings(t *testing.T) {
	o, _, err := complete(t, "--token-auth-file=tokens", "--tls-min-version=VersionTLS13",
		"--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "--enable-debugging-handlers=false", "--profiling")
	if err != nil {
		t.Fatal(err)
	}
	r := o.Remote
	if r.MinVersion != tls.VersionTLS13 || len(r.CipherSuites) != 1 ||
		r.CipherSuites[0] != tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 || r.Debugging || !r.Profiling ||
		!filepath.IsAbs(r.TokenFile) {
		t.Errorf("Remote = %+v", r)
	}
	for flag, want := range map[string]string{
		"--port=70000":                                 "--port=70000: must be a port",
		"--read-only-port=-1":                          "--read-only-port=-1",
		"--address=localhost":                          `--address="localhost": must be an IP address`,
		"--tls-cert-file=/x":                           "must be set together",
		"--tls-min-version=VersionTLS11":               "must be VersionTLS12 or VersionTLS13",
		"--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA": "unknown or insecure; supported are TLS_ECDHE",
	} {
		if _, _, err := complete(t, flag); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", flag, err, want)
		}
	}
	if _, _, err := complete(t, "--port=10250", "--read-only-port=10250"); err == nil {
		t.Error("the same port is accepted for both")
	}
}
