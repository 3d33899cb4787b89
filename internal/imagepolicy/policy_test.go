package imagepolicy

import (
	"strings"
	"testing"
)

func TestVerifies(t *testing.T) {
	list := []string{"r.test/team/app", "r.test/all/*", "short"}
	for name, c := range map[string]struct {
		policy            Policy
		image             string
		preloaded, pulled bool // what is verified
	}{
		"default":                  {Policy{}, "r.test/team/app:1", false, true},
		"NeverVerify":              {Policy{Mode: NeverVerify}, "r.test/team/app:1", false, false},
		"preloaded":                {Policy{Mode: NeverVerifyPreloaded}, "r.test/team/app:1", false, true},
		"preloaded ignores a list": {Policy{NeverVerifyPreloaded, list}, "r.test/team/app:1", false, true},
		"AlwaysVerify":             {Policy{AlwaysVerify, list}, "r.test/team/app:1", true, true},
		"no list":                  {Policy{Mode: NeverVerifyAllowlisted}, "r.test/team/app:1", true, true},
		"listed":                   {Policy{NeverVerifyAllowlisted, list}, "r.test/team/app:1", false, false},
		"listed, without a tag":    {Policy{NeverVerifyAllowlisted, list}, "r.test/team/app", false, false},
		"listed, by digest": {Policy{NeverVerifyAllowlisted, list},
			"r.test/team/app:1@sha256:" + strings.Repeat("a", 64), false, false},
		"not below a listed name":   {Policy{NeverVerifyAllowlisted, list}, "r.test/team/app/more", true, true},
		"no prefix of a name":       {Policy{NeverVerifyAllowlisted, list}, "r.test/team/application", true, true},
		"below a listed path":       {Policy{NeverVerifyAllowlisted, list}, "r.test/all/deep/app:1", false, false},
		"next to a listed path":     {Policy{NeverVerifyAllowlisted, list}, "r.test/allied/app:1", true, true},
		"the same path, other port": {Policy{NeverVerifyAllowlisted, list}, "r.test:5000/all/app:1", true, true},
		"short names as written":    {Policy{NeverVerifyAllowlisted, list}, "short:1", false, false},
		"short names are not full":  {Policy{NeverVerifyAllowlisted, list}, "docker.io/library/short:1", true, true},
	} {
		if got := c.policy.Verifies(c.image, false); got != c.preloaded {
			t.Errorf("%s: a preloaded image is verified: %v", name, got)
		}
		if got := c.policy.Verifies(c.image, true); got != c.pulled {
			t.Errorf("%s: a pulled image is verified: %v", name, got)
		}
	}
}

func TestCheck(t *testing.T) {
	for pattern, want := range map[string]string{
		"r.test/team/app": "", "r.test:5000/app": "", "r.test/*": "", "r.test/team/*": "", "short": "",
		"": "must be the name", "*": "must be the name", "/*": "must be the name", " r.test/app": "must be the name",
		"r.test/app ":  "must be the name",
		"r.test/*/app": "must be the name", "*.test/*": "must be the name", "r.test/App": "must be the name",
		"r.test/app:1": "no tag and no digest", "r.test/app@sha256:" + strings.Repeat("a", 64): "no tag and no digest",
	} {
		switch err := CheckPattern(pattern); {
		case want == "" && err != nil:
			t.Error(err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", pattern, err, want)
		}
	}
}
