package validation

import (
	"strings"
	"testing"
)

// Each bad value of an annotation of podstead is one fault with its path and a remedy.
func TestValuesOfOwnAnnotations(t *testing.T) {
	for _, c := range []struct{ name, value, fault string }{
		{"replace", "kubelet", ""},
		{"replace", "Kubelet", `supported values: "kubelet"`},
		{"replace", "", `"" is not supported`},
		{"replace", "prepare", `"prepare" is not supported`},
		{"rollback-after", "1m", ""},
		{"rollback-after", "0", ""},
		{"rollback-after", "24h", ""},
		{"rollback-after", "", "must be a duration from 1s to 24h0m0s, such as 5m, or 0 for no rollback"},
		{"rollback-after", "5", "must be a duration from"},
		{"rollback-after", "5 minutes", "must be a duration from"},
		{"rollback-after", "999ms", "must be a duration from"},
		{"rollback-after", "24h0m1s", "must be a duration from"},
		{"rollback-after", "-1m", "must be a duration from"},
		{"rollback-after", "never", "or 0 for no rollback"},
		{"restart-on-change", "true", ""},
		{"restart-on-change", "yes", `supported values: "true", "false"`},
		{"max-container-restart-period", "6m", "must be a duration from 1s to 5m0s, such as 30s"},
		{"depends-on", "db, other/cache", ""},
		{"depends-on", "web", "names the pod itself"},
		{"depends-on", "", "names no pod"},
		{"depends-on", "db cache", "must be NAME or NAMESPACE/NAME"},
		{"manifest-revision", "42", ""},
		{"manifest-revision", "v42", "must be a number without a sign"},
	} {
		pod := defaultedPod(t, "metadata: {annotations: {podstead.io/"+c.name+": \""+c.value+"\"}}")
		var texts []string
		for _, f := range CheckPod(pod) {
			if f.Warning {
				t.Errorf("%s %q: %v is a warning", c.name, c.value, f)
			}
			texts = append(texts, f.Path+": "+f.Problem+"; "+f.Remedy)
		}
		text := strings.Join(texts, "\n")
		switch {
		case c.fault == "" && text != "":
			t.Errorf("%s %q: %s", c.name, c.value, text)
		case c.fault != "" && (len(texts) != 1 ||
			!strings.HasPrefix(text, "metadata.annotations[podstead.io/"+c.name+"]: ") || !strings.Contains(text, c.fault)):
			t.Errorf("%s %q: %q, want %q", c.name, c.value, text, c.fault)
		}
		if errs := UnsupportedBound(pod); len(errs) > 0 && c.name != "restart-on-change" {
			t.Errorf("%s %q of an API pod: %v", c.name, c.value, errs)
		}
		if w := Warnings(pod); len(w) > 0 {
			t.Errorf("%s %q: warnings %v", c.name, c.value, w)
		}
	}
}

// A typo in the name of an annotation is a warning.
func TestUnknownOwnAnnotation(t *testing.T) {
	for name, remedy := range map[string]string{
		"podstead.io/rollback_after":  `did you mean "podstead.io/rollback-after"?`,
		"podstead.io/dependson":       `did you mean "podstead.io/depends-on"?`,
		"podstead.io/x":               "remove it, or use one of podstead.io/allow-devices, podstead.io/auto-update, ",
		"podstead.io/template-hash":   "",
		"example.com/rollback_after":  "",
		"podstead.iox/rollback-after": "",
	} {
		warnings := Warnings(defaultedPod(t, "metadata: {annotations: {"+name+": x}}"))
		if remedy == "" {
			if len(warnings) > 0 {
				t.Errorf("%s: %v", name, warnings)
			}
			continue
		}
		if len(warnings) != 1 || warnings[0].Path != "metadata.annotations["+name+"]" ||
			!strings.HasPrefix(warnings[0].Remedy, remedy) {
			t.Errorf("%s: %+v, want %s", name, warnings, remedy)
		}
	}
}
