package convert

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	v1 "k8s.io/api/core/v1"

	"go.yaml.in/yaml/v3"

	"github.com/podstead/podstead/cli/convert/podbuild"
	"github.com/podstead/podstead/manifest"
)

// Text returns the objects of a unit as YAML documents.
func Text(u podbuild.Unit) ([]byte, error) {
	var b bytes.Buffer
	for i, object := range u.Objects {
		if i > 0 {
			b.WriteString("---\n")
		}
		encoder := yaml.NewEncoder(&b)
		encoder.SetIndent(2)
		if err := encoder.Encode(node(object.Value, "")); err != nil {
			return nil, fmt.Errorf("failed to print %v: %w", object.Value["kind"], err)
		}
		if err := encoder.Close(); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// keyOrder is the order of fields that people write first; the others follow by name.
var keyOrder = []string{
	"apiVersion", "kind", "metadata", "name", "namespace", "labels", "annotations", "path", "type", "immutable", "spec",
	"restartPolicy", "hostNetwork", "terminationGracePeriodSeconds", "initContainers", "containers",
	"image", "imagePullPolicy", "command", "args", "workingDir", "ports", "env", "envFrom", "value", "valueFrom",
	"accessModes", "startupProbe", "readinessProbe", "livenessProbe", "lifecycle", "resources", "securityContext",
	"volumeMounts", "volumes",
	"containerPort", "hostPort", "hostIP", "protocol", "mountPath", "subPath",
}

// node returns a value as a YAML node with its fields in keyOrder. The map of a field such as env
// or data, whose keys are names, is sorted.
func node(value any, parent string) *yaml.Node {
	switch value := value.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		keys := slices.Sorted(maps.Keys(value))
		if parent != "labels" && parent != "annotations" && parent != "data" && parent != "stringData" {
			slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
		}
		for _, key := range keys {
			name := scalar(key)
			if name.Style == yaml.LiteralStyle {
				name.Style = yaml.DoubleQuotedStyle
			}
			n.Content = append(n.Content, name, node(value[key], key))
		}
		if len(keys) == 0 {
			n.Style = yaml.FlowStyle
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		plain := len(value) > 0
		for _, item := range value {
			child := node(item, "")
			plain = plain && child.Kind == yaml.ScalarNode && !strings.Contains(child.Value, "\n")
			n.Content = append(n.Content, child)
		}
		if plain && (parent == "command" || parent == "args" || parent == "accessModes") || len(value) == 0 {
			n.Style = yaml.FlowStyle
		}
		return n
	case string:
		return scalar(value)
	case json.Number:
		return number(value.String())
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(value)}
	case float64, int64, int:
		text, _ := json.Marshal(value)
		return number(string(text))
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
}

func number(text string) *yaml.Node {
	tag := "!!int"
	if strings.ContainsAny(text, ".eE") {
		tag = "!!float"
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text}
}

// scalar returns a string, in quotes where YAML 1.1 would read something else, and as a block if
// it has several lines.
func scalar(text string) *yaml.Node {
	n := &yaml.Node{}
	switch {
	case isBlock(text):
		n.SetString(text)
	case strings.ContainsAny(text, "\n\r\t") || n.Encode(text) != nil:
		n = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Style: yaml.DoubleQuotedStyle}
	}
	return n
}

// isBlock reports whether a text of several lines can be written as a block: each parser must find
// its indentation, and no character may need an escape.
func isBlock(text string) bool {
	if !strings.Contains(text, "\n") || strings.HasPrefix(text, "\n") {
		return false
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, " ") && strings.HasPrefix(text, line) || strings.HasPrefix(line, "\t") ||
			strings.HasSuffix(line, " ") {
			return false
		}
	}
	return !strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) })
}

func rank(key string) int {
	if i := slices.Index(keyOrder, key); i >= 0 {
		return i
	}
	return len(keyOrder)
}

// Group puts the objects that stand alone into the unit of the first pod that refers to them, so
// that a file has what its pod needs. What no pod refers to stays in a unit of its own.
func Group(units []podbuild.Unit) []podbuild.Unit {
	owner := map[manifest.ObjectRef]int{}
	for i, u := range units {
		for _, object := range u.Objects {
			var pod v1.Pod
			text, err := json.Marshal(object.Value)
			if object.Value["kind"] != "Pod" || err != nil || json.Unmarshal(text, &pod) != nil {
				continue
			}
			pod.Namespace = cmp.Or(pod.Namespace, v1.NamespaceDefault)
			for _, ref := range manifest.References(&pod) {
				if _, taken := owner[ref]; !taken {
					owner[ref] = i
				}
			}
		}
	}
	grouped := slices.Clone(units)
	moved := make([]bool, len(units))
	for i, u := range units {
		if len(u.Objects) != 1 || u.Objects[0].Value["kind"] == "Pod" {
			continue
		}
		ref, _ := manifest.RefOf(u.Objects[0].Value)
		if to, ok := owner[ref]; ok && to != i {
			grouped[to].Objects = append(slices.Clone(grouped[to].Objects), u.Objects...)
			moved[i] = true
		}
	}
	var left []podbuild.Unit
	for i, u := range grouped {
		if !moved[i] {
			left = append(left, u)
		}
	}
	return left
}
