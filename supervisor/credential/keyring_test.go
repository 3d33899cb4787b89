package credential

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// names returns the users for an image, in order.
func names(t *testing.T, k Keyring, image string) string {
	t.Helper()
	parsed, err := ParseImage(image)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, c := range k.Lookup(parsed) {
		all = append(all, c.Username)
	}
	return strings.Join(all, " ")
}

func TestWhoseCredentialIsForWhat(t *testing.T) {
	for _, c := range []struct {
		key, image string
		want       bool
	}{
		{"registry.example.com", "registry.example.com/app:1", true},
		{"https://registry.example.com", "registry.example.com/app:1", true},
		{"http://registry.example.com/v2/", "registry.example.com/team/app@sha256:" + strings.Repeat("a", 64), true},
		{"registry.example.com", "registry.example.com:5000/app", false},
		{"registry.example.com:5000", "registry.example.com:5000/app", true},
		{"registry.example.com:5000", "registry.example.com/app", false},
		{"registry.example.com/team", "registry.example.com/team/app", true},
		{"registry.example.com/team", "registry.example.com/other/app", false},
		{"registry.example.com/v1x", "registry.example.com/app", false},
		{"*.example.com", "registry.example.com/app", true},
		{"*.example.com", "example.com/app", false},
		{"*.example.com", "a.b.example.com/app", false},
		{"reg*.example.com", "registry.example.com/app", true},
		{"example.com", "registry.example.com/app", false},
		{"registry.example.com.evil.org", "registry.example.com/app", false},
		{"https://index.docker.io/v1/", "busybox", true},
		{"https://index.docker.io/v1/", "docker.io/team/app", true},
		{"docker.io", "team/app:1", true},
		{"docker.io/team", "team/app:1", true},
		{"docker.io/team", "busybox", false},
		{"https://index.docker.io/v1/", "registry.example.com/app", false},
		{"127.0.0.1:5000", "127.0.0.1:5000/app", true},
		{"[::1]:5000", "[::1]:5000/app", true},
		{"localhost:5000", "localhost:5000/app", true},
	} {
		k, err := ParseDockerConfig(fmt.Appendf(nil, `{"auths": {%q: {"username": "u", "password": "p"}}}`, c.key), "file")
		if err != nil {
			t.Errorf("%s: %v", c.key, err)
		}
		if got := names(t, k, c.image) == "u"; got != c.want {
			t.Errorf("%s for %s: %v", c.key, c.image, got)
		}
	}
}

func TestKeyringReadsEachForm(t *testing.T) {
	both := base64.StdEncoding.EncodeToString([]byte("bob:pa:ss"))
	for name, c := range map[string]struct {
		text string
		want string // user, password, tokens
	}{
		"auth":            {`{"auths": {"r.test": {"auth": "` + both + `"}}}`, "bob pa:ss  "},
		"without padding": {`{"auths": {"r.test": {"auth": "` + strings.TrimRight(both, "=") + `"}}}`, "bob pa:ss  "},
		"with zeros": {`{"auths": {"r.test": {"auth": "` +
			base64.StdEncoding.EncodeToString([]byte("bob:pass\x00\x00")) + `"}}}`, "bob pass  "},
		"plain": {`{"auths": {"r.test": {"username": "bob", "password": "pass", "email": "a@b"}}}`,
			"bob pass  "},
		"auth wins": {`{"auths": {"r.test": {"username": "old", "password": "old", "auth": "` + both + `"}}}`,
			"bob pa:ss  "},
		"tokens":             {`{"auths": {"r.test": {"identitytoken": "it", "registrytoken": "rt"}}}`, "  it rt"},
		"stored by a helper": {`{"auths": {"r.test": {}}, "credsStore": "desktop"}`, ""},
	} {
		k, err := ParseDockerConfig([]byte(c.text), "file")
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		image, _ := ParseImage("r.test/app")
		got := ""
		for _, found := range k.Lookup(image) {
			got = strings.Join([]string{found.Username, found.Password, found.IdentityToken, found.RegistryToken}, " ")
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	k, err := ParseDockercfg([]byte(`{"r.test": {"auth": "`+both+`"}}`), "file")
	if got := names(t, k, "r.test/app"); got != "bob" || err != nil {
		t.Errorf("dockercfg: %q (%v)", got, err)
	}
}

func TestTheMostSpecificComesFirst(t *testing.T) {
	k, err := ParseDockerConfig([]byte(`{"auths": {
		"*.test": {"username": "glob", "password": "p"}, "r.test": {"username": "host", "password": "p"},
		"r.test/team": {"username": "team", "password": "p"}, "r.test/team/app": {"username": "app", "password": "p"},
		"https://r.test/v2/": {"username": "host", "password": "p"}, "other.test": {"username": "other", "password": "p"}
	}}`), "file")
	if got := names(t, k, "r.test/team/app:1"); got != "app team host glob" || err != nil {
		t.Errorf("%q (%v)", got, err)
	}
}

// An invalid entry does not affect the others, and no error contains a secret.
func TestBrokenEntries(t *testing.T) {
	secret := base64.StdEncoding.EncodeToString([]byte("hunter2"))
	k, err := ParseDockerConfig([]byte(`{"auths": {"fine.test": {"username": "u", "password": "p"}, "a.test": {"auth": "`+
		secret+`"}, "b.test": {"auth": "hunter2!"}, "": {"password": "hunter2"}}}`), "Secret shop/login")
	if got := names(t, k, "fine.test/app"); got != "u" {
		t.Errorf("the good entry: %q", got)
	}
	if err == nil {
		t.Fatal("no error")
	}
	for _, word := range []string{"Secret shop/login", "entry 1 of 4", "entry 2 of 4", "entry 3 of 4", "USER:PASSWORD",
		"base64"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in %v", word, err)
		}
	}
	for _, registry := range []string{"a.test", "b.test", "fine.test"} {
		if strings.Contains(err.Error(), registry) {
			t.Errorf("registry %s of the Secret is in %v", registry, err)
		}
	}
	if _, err2 := ParseDockerConfig([]byte("hunter2"), "x"); err2 == nil ||
		strings.Contains(err2.Error()+err.Error(), "hunter2") || strings.Contains(err.Error(), secret) {
		t.Errorf("a secret is in %v or %v", err, err2)
	}
	all := fmt.Sprintf("%v %+v %#v", k.entries[0].credential, k.entries[0].credential, k.entries[0].credential)
	if strings.Contains(all, `"p"`) || !strings.Contains(all, "Secret shop/login") {
		t.Errorf("a credential prints as %s", all)
	}
}
