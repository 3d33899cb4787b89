package manifest

import (
	"bytes"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/podstead/podstead/manifest/validation"
)

// kindRemedies reports what to do about kinds of a cluster that this daemon does not read.
var kindRemedies = map[string]string{
	"Job": "convert it with podstead convert, or copy its pod template into a Pod, with " +
		"restartPolicy: OnFailure",
	"CronJob": "copy its pod template into a Pod with restartPolicy: OnFailure, and let a " +
		"systemd timer apply it",
	"Ingress":   "run a reverse proxy as a Pod with hostPort; remove the document",
	"Gateway":   "run a reverse proxy as a Pod with hostPort; remove the document",
	"HTTPRoute": "run a reverse proxy as a Pod with hostPort; remove the document",
	"Namespace": "a namespace exists as soon as a manifest names it; remove the document",
	"NetworkPolicy": "there is no network policy without a cluster; use the firewall of the host, and " +
		"remove the document",
	"HorizontalPodAutoscaler":        "one pod runs for each manifest; remove the document",
	"PodDisruptionBudget":            "one pod runs for each manifest; remove the document",
	"CustomResourceDefinition":       "custom resources need an API server; remove the document",
	"Kustomization":                  "write the output of kustomize build into the directory instead",
	"HelmChart":                      "write the output of helm template into the directory instead",
	"ServiceAccount":                 noAccessControl,
	"Role":                           noAccessControl,
	"RoleBinding":                    noAccessControl,
	"ClusterRole":                    noAccessControl,
	"ClusterRoleBinding":             noAccessControl,
	"KubeletConfiguration":           "pass it with --config, and keep it outside the manifest directory",
	"ValidatingWebhookConfiguration": noAccessControl,
	"MutatingWebhookConfiguration":   noAccessControl,
}

// ForeignKindRemedy reports what to do instead about an object of a kind that this daemon does not
// read, such as an Ingress, for programs that leave it out; empty for a kind that it reads, and
// for one that neither Kubernetes nor a custom resource has.
func ForeignKindRemedy(kind, version string) string {
	remedy := foreignRemedy(kind, version)
	for _, end := range []string{"; remove the document", ", and remove the document"} {
		remedy = strings.TrimSuffix(remedy, end)
	}
	return remedy
}

// foreignRemedy is ForeignKindRemedy for a document among the manifests.
func foreignRemedy(kind, version string) string {
	if remedy := kindRemedies[kind]; remedy != "" {
		return remedy
	}
	if isCustomResource(version) {
		return "it is a custom resource, for which a cluster with its controller is needed; remove the document"
	}
	return ""
}

const noAccessControl = "it controls access to the API server of a cluster; remove the document"

// isCustomResource reports whether the API group of a version is neither Kubernetes' own nor
// empty.
func isCustomResource(version string) bool {
	group, _, ok := strings.Cut(version, "/")
	return ok && strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}

// composeFault recognises a Compose file among the manifests.
func composeFault(value map[string]any, at location) *validation.FieldFault {
	services, ok := value["services"].(map[string]any)
	if !ok || value["kind"] != nil || value["apiVersion"] != nil {
		return nil
	}
	for _, service := range services {
		if fields, ok := service.(map[string]any); ok && fields["image"] == nil && fields["build"] == nil {
			return nil
		}
	}
	return &validation.FieldFault{Problem: "is a Compose file and not a manifest", Line: at.line("services"),
		Remedy: "convert it with podstead convert, or write each service as a Pod"}
}

// unitSection matches the first line of a systemd unit.
var unitSection = regexp.MustCompile(`^\[[A-Z][A-Za-z]*\]\s*$`)

// foreignFault recognises what is neither YAML nor JSON in a text that could not be decoded;
// nil for a text with another fault.
func foreignFault(c chunk) *Fault {
	line := c.lineOffset
	for row := range bytes.Lines(c.text) {
		line++
		if text := bytes.TrimSpace(row); len(text) > 0 && text[0] != '#' && text[0] != ';' {
			if unitSection.Match(text) {
				return &Fault{Line: line, Problem: "is a systemd or Quadlet unit and not a manifest",
					Remedy: "convert it with podstead convert, or move it to /etc/containers/systemd and run it with Podman"}
			}
			break
		}
	}
	if offset := jsonComment(c.text); offset >= 0 {
		return &Fault{Line: c.lineOffset + lineAt(c.text, offset), Problem: "is JSON with a comment",
			Remedy: "remove the comment: JSON has none; YAML has them, after #"}
	}
	return nil
}

// jsonComment returns the offset of the first comment in a text that begins with a brace, -1
// if there is none.
func jsonComment(text []byte) int {
	if !looksLikeJSON(bytes.TrimPrefix(text, []byte("---"))) {
		return -1
	}
	quoted := false
	for i := 0; i+1 < len(text); i++ {
		switch {
		case quoted && text[i] == '\\':
			i++
		case text[i] == '"':
			quoted = !quoted
		case text[i] == '\n':
			quoted = false
		case !quoted && text[i] == '/' && (text[i+1] == '/' || text[i+1] == '*') &&
			(i == 0 || strings.IndexByte(" \t\r\n{[,", text[i-1]) >= 0):
			return i
		}
	}
	return -1
}

// booleanKeys returns a warning for each key that YAML 1.1 reads as a boolean although it
// looks like a name, such as n or on: the object has another key than its author wrote.
func booleanKeys(node *yaml.Node, warnings []Fault) []Fault {
	if node.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			if key.Kind != yaml.ScalarNode || !isPlain(key) {
				continue
			}
			switch strings.ToLower(key.Value) {
			case "y", "n", "yes", "no", "on", "off":
				if text := keyText(key); text != key.Value {
					warnings = append(warnings, Fault{Line: key.Line, Warning: true,
						Problem: "the key " + key.Value + " is read as the boolean " + text + " (YAML 1.1)",
						Remedy:  "write it in quotes: " + validation.Quote(key.Value)})
				}
			}
		}
	}
	for _, child := range node.Content {
		if len(warnings) >= maxFaults {
			break
		}
		warnings = booleanKeys(child, warnings)
	}
	return warnings
}
