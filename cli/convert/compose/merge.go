package compose

import (
	"strings"

	"github.com/podstead/podstead/cli/convert/tree"
)

// replaced are lists that are replaced as a whole.
var replaced = map[string]bool{"command": true, "entrypoint": true, "test": true}

// keyed are fields that are a map, or a list of NAME=VALUE or of names.
var keyed = map[string]string{"environment": "=", "labels": "=", "annotations": "=", "sysctls": "=",
	"extra_hosts": "=:", "depends_on": "", "networks": ""}

// merge returns base with the fields of over, as docker compose merges files and extends.
func merge(base, over *tree.Node, field string) *tree.Node {
	switch {
	case over.IsNull():
		return base
	case base.IsNull() || replaced[field]:
		return over
	}
	if separators, ok := keyed[field]; ok {
		base, over = toMap(base, separators), toMap(over, separators)
	}
	switch {
	case base.Is(tree.Map) && over.Is(tree.Map):
		merged := base.Clone()
		for _, f := range over.Fields {
			f.Value = merge(base.Get(f.Key), f.Value, f.Key)
			merged.Set(f)
		}
		return merged
	case base.Is(tree.List) && over.Is(tree.List):
		merged := base.Clone()
		for _, item := range over.Items {
			addItem(merged, item, field)
		}
		return merged
	}
	return over
}

// addItem adds an item to a list, in the place of one with the same path in the container.
func addItem(list, item *tree.Node, field string) {
	target := func(n *tree.Node) string {
		switch {
		case n.Is(tree.Map):
			return n.Get("target").String()
		case field == "volumes" || field == "devices":
			if parts := strings.Split(n.String(), ":"); len(parts) > 1 {
				return parts[1]
			}
		}
		return n.String()
	}
	for i, old := range list.Items {
		same := old.Is(tree.Scalar) && item.Is(tree.Scalar) && old.Text == item.Text
		if same || (field == "volumes" || field == "devices") && target(old) == target(item) && target(item) != "" {
			list.Items[i] = item
			return
		}
	}
	list.Items = append(list.Items, item)
}

// toMap returns a list of NAME=VALUE, or of names, as a map.
func toMap(n *tree.Node, separators string) *tree.Node {
	if !n.Is(tree.List) {
		return n
	}
	m := &tree.Node{Position: n.Position, Kind: tree.Map}
	for _, item := range n.Items {
		f := tree.Field{Position: item.Position, Key: item.String(), Value: &tree.Node{Position: item.Position}}
		for _, separator := range separators {
			if name, value, ok := strings.Cut(item.String(), string(separator)); ok {
				f.Key, f.Value.Kind, f.Value.Text = name, tree.Scalar, value
				break
			}
		}
		m.Set(f)
	}
	return m
}
