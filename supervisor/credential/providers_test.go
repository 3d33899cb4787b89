package credential

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const configHead = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n"

// plugins is a directory of plugins with their config.
type plugins struct {
	t   *testing.T
	dir string
}

func newPlugins(t *testing.T) plugins { return plugins{t, t.TempDir()} }

func (p plugins) path(name string) string { return filepath.Join(p.dir, name) }

func (p plugins) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), []byte(text), 0o755); err != nil {
		p.t.Fatal(err)
	}
}

func (p plugins) read(config string) *Providers {
	p.t.Helper()
	p.write("config.yaml", configHead+config)
	all, err := ReadProviders(p.path("config.yaml"), p.dir)
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

// responding installs a plugin that responds with a user for r.test, and logs
// its requests to a file.
func (p plugins) answering(name, user, kind, more string) {
	p.write(name, fmt.Sprintf(`#!/bin/sh
{ cat; echo " $1 $WORD"; } >> %s
echo '{"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderResponse", "cacheKeyType": "%s", %s "auth": {"*.test": {"username": "%s", "password": "hunter2"}}}'
`, p.path("asked"), kind, more, user))
}

func (p plugins) asked() []string {
	text, _ := os.ReadFile(p.path("asked"))
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func lookup(t *testing.T, p *Providers, image string) (string, error) {
	t.Helper()
	parsed, err := ParseImage(image)
	if err != nil {
		t.Fatal(err)
	}
	found, err := p.lookup(t.Context(), parsed)
	var users []string
	for _, c := range found {
		users = append(users, c.Username+" of "+c.Origin)
	}
	return strings.Join(users, ", "), err
}

func TestProviderIsAsked(t *testing.T) {
	p := newPlugins(t)
	p.answering("cloud", "bob", cacheByImage, "")
	all := p.read(`
providers:
- name: cloud
  matchImages: ["r.test", "*.other.test/team"]
  defaultCacheDuration: 1h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: [get]
  env: [{name: WORD, value: word}]
`)
	got, err := lookup(t, all, "r.test/app:1")
	if err != nil || got != `bob of credential provider "cloud"` {
		t.Errorf("%s (%v)", got, err)
	}
	want := `{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"r.test/app:1","kind":"CredentialProviderRequest"} get word`
	if asked := p.asked(); len(asked) != 1 || asked[0] != want {
		t.Errorf("asked %q, want %q", asked, want)
	}
	if got, err := lookup(t, all, "r.other.test/app:1"); got != "" || err != nil || len(p.asked()) != 1 {
		t.Errorf("the plugin ran for an image that it does not match: %s (%v)", got, err)
	}
}

func TestAnswersAreKept(t *testing.T) {
	for _, c := range []struct {
		kind, more, keep string
		asked            int // of three: an image twice, another of its registry, one of another registry
	}{
		{cacheByImage, "", "1h", 3},
		{cacheByRegistry, "", "1h", 2},
		{cacheGlobally, "", "1h", 1},
		{cacheGlobally, "", "0s", 4},
		{cacheGlobally, `"cacheDuration": "0s",`, "1h", 4},
		{cacheGlobally, `"cacheDuration": "1h",`, "0s", 1},
		{cacheGlobally, `"cacheDuration": "2540400h",`, "0s", 1},
	} {
		p := newPlugins(t)
		p.answering("cloud", "bob", c.kind, c.more)
		all := p.read("providers: [{name: cloud, matchImages: ['*.test'], defaultCacheDuration: " + c.keep +
			", apiVersion: credentialprovider.kubelet.k8s.io/v1}]\n")
		for _, image := range []string{"r.test/app:1", "r.test/app:1", "r.test/app:2", "s.test/app:1"} {
			if got, err := lookup(t, all, image); !strings.HasPrefix(got, "bob") || err != nil {
				t.Errorf("%+v: %s: %s (%v)", c, image, got, err)
			}
		}
		if asked := p.asked(); len(asked) != c.asked {
			t.Errorf("%+v: the plugin ran %d times", c, len(asked))
		}
	}
}

func TestOneQuestionForMany(t *testing.T) {
	p := newPlugins(t)
	p.answering("cloud", "bob", cacheByImage, "")
	text, _ := os.ReadFile(p.path("cloud"))
	p.write("cloud", strings.Replace(string(text), "{ cat", "sleep 0.3\n{ cat", 1))
	all := p.read("providers: [{name: cloud, matchImages: ['*.test'], defaultCacheDuration: 1h, apiVersion: " +
		"credentialprovider.kubelet.k8s.io/v1}]\n")
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if got, err := lookup(t, all, "r.test/app"); got == "" || err != nil {
				t.Errorf("%q (%v)", got, err)
			}
		})
	}
	wg.Wait()
	if asked := p.asked(); len(asked) != 1 {
		t.Errorf("the plugin ran %d times", len(asked))
	}
}

// A plugin that fails does not affect the others; the error states why, without
// the plugin's output.
func TestProviderFaults(t *testing.T) {
	p := newPlugins(t)
	p.answering("good", "bob", cacheByImage, "")
	for name, c := range map[string]struct{ script, want string }{
		"fails":   {"echo first >&2; echo no such role >&2; exit 3", "exit status 3: no such role"},
		"silent":  {"exit 4", "failed: exit status 4"},
		"no-json": {"echo hunter2", "not a CredentialProviderResponse"},
		"kind": {`echo '{"kind": "Pod", "apiVersion": "v1", "auth": {"hunter2": {}}}'`,
			`apiVersion "v1" and kind "Pod"`},
		"cache-key": {
			`echo '{"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderResponse", "auth": {}}'`,
			`cacheKeyType ""`},
	} {
		p.write(name, "#!/bin/sh\n"+c.script+"\n")
		config := "providers:\n"
		for _, n := range []string{name, "good"} {
			config += "- {name: " + n + ", matchImages: ['*.test'], defaultCacheDuration: 0s, apiVersion: " +
				"credentialprovider.kubelet.k8s.io/v1}\n"
		}
		got, err := lookup(t, p.read(config), "r.test/app")
		if got != `bob of credential provider "good"` || err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %q (%v), want %q", name, got, err, c.want)
		}
	}
}

func TestProvidersConfigFaults(t *testing.T) {
	p := newPlugins(t)
	p.answering("cloud", "bob", cacheByImage, "")
	p.write("plain-file", "")
	if err := os.Chmod(p.path("plain-file"), 0o600); err != nil {
		t.Fatal(err)
	}
	const good = "matchImages: [r.test], defaultCacheDuration: 1h, apiVersion: credentialprovider.kubelet.k8s.io/v1"
	for _, c := range []struct{ config, want string }{
		{"apiVersion: v1\nkind: Pod\n", `kind "Pod"`},
		{configHead, "providers: at least one"},
		{configHead + "provider: []\n", "provider"},
		{configHead + "providers: [{name: none, " + good + "}]", "providers[0].name"},
		{configHead + "providers: [{name: plain-file, " + good + "}]", "not an executable file"},
		{configHead + "providers: [{name: ../cloud, " + good + "}]", "providers[0].name"},
		{configHead + "providers: [{name: cloud, " + good + "}, {name: cloud, " + good + "}]", "providers[1].name"},
		{configHead +
			"providers: [{name: cloud, defaultCacheDuration: 1h, apiVersion: credentialprovider.kubelet.k8s.io/v1}]",
			"matchImages"},
		{configHead + "providers: [{name: cloud, matchImages: ['[a'], defaultCacheDuration: 1h, apiVersion: " +
			"credentialprovider.kubelet.k8s.io/v1}]", "matchImages[0]"},
		{configHead + "providers: [{name: cloud, matchImages: [a], apiVersion: credentialprovider.kubelet.k8s.io/v1}]",
			"defaultCacheDuration"},
		{configHead + "providers: [{name: cloud, matchImages: [a], defaultCacheDuration: -1s, apiVersion: v2}]", "negative"},
		{configHead + "providers: [{name: cloud, matchImages: [a], defaultCacheDuration: 1s, apiVersion: v2}]",
			"providers[0].apiVersion"},
		{configHead + "providers: [{name: cloud, " + good + ", env: [{name: A}, {name: A}]}]", "env[1].name"},
		{configHead + "providers: [{name: cloud, " + good + ", tokenAttributes: {serviceAccountTokenAudience: x}}]",
			"tokenAttributes"},
	} {
		p.write("config.yaml", c.config)
		if _, err := ReadProviders(p.path("config.yaml"), p.dir); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "config.yaml") {
			t.Errorf("%s\n%v, want %q", c.config, err, c.want)
		}
	}
	// A directory can hold several configs, read in sorted order; other
	// files are ignored.
	dir := p.path("configs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadProviders(dir, p.dir); err == nil {
		t.Error("an empty directory is accepted")
	}
	p.answering("second", "eve", cacheByImage, "")
	p.write("configs/b.json",
		`{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "CredentialProviderConfig", "providers": [{"name": "second", "matchImages": ["r.test"], "defaultCacheDuration": "1h", "apiVersion": "credentialprovider.kubelet.k8s.io/v1"}]}`)
	p.write("configs/a.yaml", configHead+"providers: [{name: cloud, "+good+"}]")
	p.write("configs/README", "read me")
	all, err := ReadProviders(dir, p.dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := lookup(t, all,
		"r.test/app"); got != `bob of credential provider "cloud", eve of credential provider "second"` || err != nil {
		t.Errorf("%q (%v)", got, err)
	}
}
