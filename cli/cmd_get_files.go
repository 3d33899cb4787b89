package cli

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/cli/manifestfile"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/manifest/edit"
)

// fileQueries returns one query for each kind and namespace of the objects that the files of
// --filename declare.
func fileQueries(cmd *cobra.Command, o getOptions) ([]objects.Query, error) {
	var queries []objects.Query
	for _, path := range o.files {
		err := manifestfile.Each(cmd.Context(), path, cmd.InOrStdin(),
			func(file string, data []byte, fault *manifest.Fault) error {
				if fault != nil {
					return *fault
				}
				docs, faults := edit.Documents(file, data)
				if faults.Fatal() {
					return faults
				}
				for _, doc := range docs {
					k, err := objects.FindKind(doc.Ref.Kind)
					if err != nil {
						return err
					}
					namespace := doc.Ref.Namespace
					if !k.Namespaced {
						namespace = ""
					}
					at := slices.IndexFunc(queries,
						func(q objects.Query) bool { return q.Kind.Name == k.Name && q.Namespace == namespace })
					if at < 0 {
						queries = append(queries, objects.Query{Kind: k, Namespace: namespace, Table: o.Output == "" ||
							o.Output == "wide"})
						at = len(queries) - 1
					}
					if !slices.Contains(queries[at].Names, doc.Ref.Name) {
						queries[at].Names = append(queries[at].Names, doc.Ref.Name)
					}
				}
				return nil
			})
		if err != nil {
			return nil, err
		}
	}
	if len(queries) == 0 {
		return nil, errors.New("no manifests found; manifests in a directory must end in .yaml, .yml or .json")
	}
	return queries, nil
}

// checkGetArgs checks that either types or files are given.
func checkGetArgs(args []string, o getOptions) error {
	switch {
	case len(o.files) == 0 && len(args) == 0:
		return errors.New("no resource type given; use for example: podstead get pods")
	case len(o.files) > 0 && len(args) > 0:
		return errors.New("--filename names the objects; remove the types and names")
	case len(o.files) > 0 && (o.labels != "" || o.fields != "" || o.namespace != ""):
		return errors.New("--filename names the objects; remove the selectors and the namespace")
	}
	return nil
}
