package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/manifest"
)

// localObject is what the daemon tells of an object. Its fields are in the
// order of the answer.
type localObject struct {
	Kind      string   `json:"kind"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name"`
	Source    string   `json:"source"`
	Manifest  string   `json:"manifest"`
	Revision  string   `json:"revision"`
	Keys      []string `json:"keys,omitempty"`
	Type      string   `json:"type,omitempty"`
}

// getObjectsCommand lists objects of one kind; word is the kind in lower case,
// short what kubectl calls it too.
func getObjectsCommand(kind, word, short string) *cobra.Command {
	var o getOptions
	aliases := []string{word}
	if short != "" {
		aliases = append(aliases, short)
	}
	cmd := &cobra.Command{
		Use:     word + "s [NAME...]",
		Aliases: aliases,
		Short:   "List the " + kind + "s of the manifests, their names and keys",
		Long: "List the " + kind + `s that the manifests declare: their names, the keys of their data, and
the manifest that each is from. What they hold is not shown; it is in the manifest.`,
		RunE: func(cmd *cobra.Command, names []string) error { return getObjects(cmd, o, kind, names) },
	}
	f := cmd.Flags()
	f.StringVar(&o.socket, "api-socket", DefaultSocket, "the daemon's `socket`")
	f.StringVarP(&o.namespace, "namespace", "n", "", "only those of this `namespace`")
	f.BoolP("all-namespaces", "A", true, "all namespaces, as without --namespace")
	f.StringVarP(&o.output, "output", "o", "", "json, yaml or name")
	return cmd
}

func getObjects(cmd *cobra.Command, o getOptions, kind string, names []string) error {
	if !slices.Contains([]string{"", "json", "yaml", "name"}, o.output) {
		return fmt.Errorf("--output %q: must be json, yaml or name", o.output)
	}
	c := newClient(o.socket)
	var all []localObject
	if err := c.get(cmd.Context(), "/podstead/v1/objects", &all); err != nil {
		return err
	}
	word := strings.ToLower(kind)
	list := []localObject{}
	missing := slices.Clone(names)
	for _, object := range all {
		asked := func(name string) bool { return strings.TrimPrefix(name, word+"/") == object.Name }
		if object.Kind != kind || o.namespace != "" && object.Namespace != o.namespace || len(names) > 0 && !slices.ContainsFunc(names, asked) {
			continue
		}
		list = append(list, object)
		missing = slices.DeleteFunc(missing, asked)
	}
	if err := printObjects(cmd, o, kind, list); err != nil {
		return err
	}
	for _, name := range missing {
		cmd.PrintErrf("no %s %q%s\n", kind, name, inNamespace(o.namespace))
	}
	if len(missing) > 0 {
		return &ExitError{Code: 1}
	}
	return nil
}

func printObjects(cmd *cobra.Command, o getOptions, kind string, list []localObject) error {
	out := cmd.OutOrStdout()
	switch {
	case o.output == "name":
		for i := range list {
			if _, err := fmt.Fprintln(out, strings.ToLower(kind)+"/"+list[i].Name); err != nil {
				return err
			}
		}
		return nil
	case o.output != "":
		return printEncoded(out, list, o.output)
	case len(list) == 0:
		cmd.PrintErrf("no %ss%s\n", kind, inNamespace(o.namespace))
		return nil
	}
	return objectTable(kind, list).print(out)
}

func objectTable(kind string, list []localObject) table {
	t := table{head: []string{"NAMESPACE", "NAME", "KEYS", "MANIFEST"}}
	if kind == manifest.KindSecret {
		t.head = []string{"NAMESPACE", "NAME", "TYPE", "KEYS", "MANIFEST"}
	}
	for i := range list {
		object := &list[i]
		row := []string{object.Namespace, object.Name}
		if kind == manifest.KindSecret {
			row = append(row, object.Type)
		}
		t.rows = append(t.rows, append(row, orNone(strings.Join(object.Keys, ",")), object.Manifest))
	}
	return t
}
