package docs

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// proxies are the programs of docs/reverse-proxy.md with a port of the host for their examples, and where they
// are. TRAEFIK names a program that was built by hand: it cannot be installed with go install, and its build
// takes longer than the whole test.
func proxies() []proxy {
	list := []proxy{{"Caddy", "caddy", filepath.Join(testbed.Cache(), "caddy-debian/usr/bin/caddy"),
		"docker.io/library/caddy:2.11", "9443"}}
	if file := os.Getenv("TRAEFIK"); file != "" {
		list = append(list, proxy{"Traefik", "traefik", file, "docker.io/library/traefik:v3.7", "9444"})
	}
	return list
}

type proxy struct{ section, program, file, image, port string }

// libraries returns the directories of the host with what Debian's programs are linked to, as volumes and as
// their mounts.
func libraries(t *testing.T) (volumes, mounts string) {
	t.Helper()
	dirs, err := filepath.Glob("/lib/*-linux-gnu")
	if err != nil || len(dirs) != 1 {
		t.Fatalf("directories of libraries: %q, %v", dirs, err)
	}
	for i, dir := range append(dirs, "/lib64") {
		volumes += fmt.Sprintf("    - {name: lib%d, hostPath: {path: %s}}\n", i, dir)
		mounts += fmt.Sprintf(", {name: lib%d, mountPath: %s}", i, dir)
	}
	return volumes, mounts
}

// The examples of docs/reverse-proxy.md serve a pod over TLS by its name, also after it was replaced.
func TestReverseProxyPage(t *testing.T) {
	t.Parallel()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	harness.WriteAll(t, n.Dir(), map[string]string{"resolv.conf": "nameserver 192.0.2.1\n"})
	n.Args = append(n.Args, "--pod-dns", "always", "--cni-conf-dir", filepath.Join(n.Runtime.Dir(), "cni"),
		"--resolv-conf", filepath.Join(n.Dir(), "resolv.conf"))
	t.Cleanup(n.EndNameserver)
	n.MustStart()
	web := harness.PageDocuments(t, "reverse-proxy.md", "The pod")
	n.WriteManifest("web.yaml", web[0])
	volumes, mounts := libraries(t)
	list := proxies()
	for _, p := range list {
		own := "{name: program, mountPath: /program}" + mounts
		n.WriteManifest(p.program+".yaml", strings.NewReplacer(p.image, testbed.BusyboxImage,
			"["+p.program+",", "[/program/"+filepath.Base(p.file)+",",
			"hostPort: 443}", "hostPort: "+p.port+"}", "        - {containerPort: 80, hostPort: 80}\n", "",
			"volumeMounts: [", "volumeMounts: ["+own+", ",
			"  volumes:\n", fmt.Sprintf("  volumes:\n    - {name: program, hostPath: {path: %s}}\n%s",
				filepath.Dir(p.file), volumes),
		).Replace(harness.PageDocuments(t, "reverse-proxy.md", p.section)[0]))
	}
	n.AwaitReady("web")
	served := func(port, want string) error {
		client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the certificate is the proxy's
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
			}}}
		resp, err := client.Get("https://edge.example.com/")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err != nil || string(text) != want {
			return fmt.Errorf("%s: %q, %v", resp.Status, text, err)
		}
		return nil
	}
	for _, p := range list {
		n.AwaitReady(p.program)
		n.Await(p.program+" serves the pod", func() error { return served(p.port, "Hello\n") })
	}
	n.WriteManifest("web.yaml", strings.Replace(web[0], "echo Hello", "echo Again", 1))
	for _, p := range list {
		n.Await(p.program+" serves the new pod", func() error { return served(p.port, "Again\n") })
	}
}
