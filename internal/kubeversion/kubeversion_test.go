package kubeversion

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

// The release is that of the API's types.
func TestRelease(t *testing.T) {
	data, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\tk8s\.io/api v0\.(.*)$`).FindSubmatch(data)
	if found == nil || Release != "v1."+string(found[1]) {
		t.Errorf("Release is %s, go.mod has k8s.io/api v0.%s", Release, found[1:])
	}
}

func TestSemantic(t *testing.T) {
	for in, want := range map[string]string{
		"1.2.3":                              "1.2.3",
		"v1.2.3":                             "1.2.3",
		"v1.2.3-4-gdeadbee-dirty":            "1.2.3-4-gdeadbee-dirty",
		"deadbee":                            "deadbee",
		"devel":                              "devel",
		"v":                                  "v",
		"vendor":                             "vendor",
		"v0.0.0-20260601120000-abcdef+dirty": "0.0.0-20260601120000-abcdef.dirty",
		"release/1.0_rc 1~x":                 "release-1.0-rc-1-x",
		"..1..2.":                            "1.2",
		"":                                   "unknown",
		"+":                                  "unknown",
		"1.0-größe\n":                        "1.0-gr--e-",
	} {
		got := Semantic(in)
		if want = Release + "+podstead-" + want; got != want {
			t.Errorf("Semantic(%q) = %q, want %q", in, got, want)
		}
	}
}

// Whatever the version is, Kubernetes parses the result and finds its own release in it.
func FuzzSemantic(f *testing.F) {
	for _, s := range []string{"", "v1.2.3", "1..2+x+y", "a b", "\x00\xff", "+.-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Semantic(s)
		v, err := version.ParseSemantic(got)
		if err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		if v.String() != strings.TrimPrefix(got, "v") || "v"+v.WithBuildMetadata("").String() != Release {
			t.Errorf("%q is parsed as %s", got, v)
		}
	})
}
