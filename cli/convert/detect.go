package convert

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/podstead/podstead/manifest"
)

// Kind is a kind of input.
type Kind string

// The kinds of input; the empty one is detected.
const (
	KindCompose    Kind = "compose"
	KindQuadlet    Kind = "quadlet"
	KindKubernetes Kind = "kubernetes"
)

// Kinds are all kinds.
var Kinds = []string{string(KindCompose), string(KindQuadlet), string(KindKubernetes)}

// Input is one file.
type Input struct {
	// Name is the path; "-" is standard input.
	Name string
	Data []byte
}

// QuadletSuffixes are the suffixes of Quadlet units.
var QuadletSuffixes = []string{".container", ".pod", ".kube", ".volume", ".network", ".build", ".image"}

// ComposeNames are the names under which docker compose finds a file, in its order.
var ComposeNames = []string{"compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"}

// ComposeOverrides are the names of the file that is merged into the one of the same place in ComposeNames.
var ComposeOverrides = []string{"compose.override.yaml", "compose.override.yml", "docker-compose.override.yaml",
	"docker-compose.override.yml"}

// unitSection matches the first line of a unit.
var unitSection = regexp.MustCompile(`^\[[A-Z][A-Za-z]*\]\s*$`)

// detect returns the kind of an input; empty for YAML, whose content decides.
func detect(in Input, from Kind) Kind {
	if from != "" {
		return from
	}
	for _, suffix := range QuadletSuffixes {
		if filepath.Ext(in.Name) == suffix {
			return KindQuadlet
		}
	}
	for row := range bytes.Lines(in.Data) {
		row = bytes.TrimSpace(row)
		if len(row) == 0 || row[0] == '#' || row[0] == ';' {
			continue
		}
		if unitSection.Match(row) {
			return KindQuadlet
		}
		break
	}
	return ""
}

// isCompose reports whether a YAML file is one of Compose and not of Kubernetes.
func isCompose(parts []manifest.Part) bool {
	for i := range parts {
		value, ok := parts[i].Value.(map[string]any)
		if !ok || value["kind"] != nil || value["apiVersion"] != nil {
			continue
		}
		for _, key := range []string{"services", "include"} {
			if value[key] != nil {
				return true
			}
		}
	}
	return false
}

// IsQuadlet reports whether a file is a Quadlet unit by its name.
func IsQuadlet(name string) bool {
	for _, suffix := range QuadletSuffixes {
		if strings.HasSuffix(name, suffix) && name != suffix {
			return true
		}
	}
	return false
}
