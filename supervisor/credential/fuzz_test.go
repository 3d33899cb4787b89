package credential

import (
	"encoding/json"
	"slices"
	"testing"
)

// FuzzDockerConfig parses arbitrary Secrets and looks up arbitrary images. Both formats give
// the same credentials.
func FuzzDockerConfig(f *testing.F) {
	f.Add([]byte(`{"r.test": {"auth": "Ym9iOnBhOnNz"}, "*.test/team": {"username": "u", "password": "p"}}`),
		"r.test/team/app:1")
	f.Add(
		[]byte(`{"https://index.docker.io/v1/": {"auth": "Ym9iOnBhc3MAAA"}, "": {}, "[::1]:5000": {"identitytoken": "t"}}`),
		"busybox")
	f.Add([]byte(`{"[": {"username": "u"}, "a.test": {"auth": "!"}, "b.test": null}`), "[::1]:5000/app")
	f.Add([]byte(`[]`), "x@sha256:")
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		old, _ := ParseDockercfg(text, "file")
		image, err := ParseImage(name)
		if err != nil || !json.Valid(text) {
			return
		}
		k, _ := ParseDockerConfig(slices.Concat([]byte(`{"auths": `), text, []byte(`}`)), "file")
		got, want := k.Lookup(image), old.Lookup(image)
		if !slices.Equal(got, want) {
			t.Errorf("config.json has %d credentials, .dockercfg %d", len(got), len(want))
		}
		for _, c := range got {
			if c.Origin != "file" {
				t.Errorf("origin %q", c.Origin)
			}
		}
	})
}
