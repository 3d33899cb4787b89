package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/manifest/edit"
)

// deleteOptions are the flags of delete.
type deleteOptions struct {
	editOptions
	namespace      string
	files          []string
	ignoreNotFound bool
}

func deleteCommand() *cobra.Command {
	var o deleteOptions
	cmd := &cobra.Command{
		Use:   "delete [TYPE] NAME... | TYPE/NAME... | -f FILE|DIR|-",
		Short: "Delete resources by name, file name or stdin",
		Long: `Remove the documents of pods or other objects from the manifest directory. The daemon
then ends the pods, with their grace periods and preStop hooks. Other documents of a
file stay; a file without documents is removed. The data of a claim is kept, and
podstead volumes remove deletes it, unless the reclaim policy of its class is Delete:
then it is deleted 10 seconds after the claim was removed and its last pod has ended.

If one of the objects cannot be removed, none is. To run a pod again, apply its
manifest; to restart it, use podstead restart.`,
		Example: `  # End a pod and remove it from its manifest
  podstead delete web --wait

  # Remove all objects of a file
  podstead delete -f web.yaml

  # Remove a ConfigMap
  podstead delete configmap site`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && len(o.files) == 0:
				return errors.New("nothing to delete; name pods, or files with -f")
			case len(args) > 0 && len(o.files) > 0:
				return errors.New("names and --filename cannot be used together")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runDelete(cmd, o, args) },
	}
	o.addFlags(cmd, "wait until the pods have ended")
	f := cmd.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "",
		"`namespace` of the objects; required if several namespaces have one of this name")
	f.StringSliceVarP(&o.files, "filename", "f", nil,
		"`file` or directory of manifests with the objects, or - for standard input")
	f.BoolVar(&o.ignoreNotFound, "ignore-not-found", false, "ignore objects that no manifest declares")
	return cmd
}

func runDelete(cmd *cobra.Command, o deleteOptions, args []string) error {
	named, err := parseNames(args)
	if err != nil {
		return err
	}
	e, err := openManifests(cmd, o.editOptions)
	if err != nil {
		return err
	}
	var refs []manifest.ObjectRef
	for _, n := range named {
		ref, err := e.find(n, o.namespace)
		if err != nil {
			return err
		}
		refs = append(refs, ref)
	}
	if len(o.files) > 0 {
		err := e.read(o.files, func(_ string, _ []byte, docs []edit.Document) error {
			for _, doc := range docs {
				refs = append(refs, doc.Ref)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, ref := range refs {
		change, err := e.set.Remove(ref)
		if errors.Is(err, edit.ErrNotFound) && o.ignoreNotFound {
			continue
		}
		if err != nil {
			return err
		}
		e.changes = append(e.changes, change)
	}
	if err := e.finish(false); err != nil {
		return err
	}
	return e.await()
}

// objectName is the type and name of an object on the command line.
type objectName struct {
	kind *objects.Kind
	name string
}

// manifestKinds are the kinds of the types that manifests declare.
var manifestKinds = map[string]string{
	"pod": "Pod", "configmap": manifest.KindConfigMap, "secret": manifest.KindSecret,
	"persistentvolumeclaim": manifest.KindClaim,
	"service":               manifest.KindService, "priorityclass": manifest.KindPriorityClass,
	"runtimeclass":     manifest.KindRuntimeClass,
	"persistentvolume": manifest.KindVolume, "storageclass": manifest.KindStorageClass,
}

// parseNames parses [TYPE] NAME... and TYPE/NAME...; the type defaults to pods.
func parseNames(args []string) (names []objectName, err error) {
	kind := objects.PodKind()
	if len(args) > 1 {
		if i := slices.IndexFunc(objects.Kinds(), func(k *objects.Kind) bool { return k.Matches(args[0]) }); i >= 0 {
			kind, args = objects.Kinds()[i], args[1:]
		}
	}
	for _, arg := range args {
		k := kind
		if word, name, typed := strings.Cut(arg, "/"); typed {
			if k, err = objects.FindKind(word); err != nil {
				return nil, err
			}
			arg = name
		}
		if manifestKinds[k.Singular] == "" {
			return nil, usageError(fmt.Errorf("%s are not declared in manifests and cannot be changed", k.Name))
		}
		names = append(names, objectName{kind: k, name: arg})
	}
	return names, nil
}

// find returns the object of a name. That of a pod may end with the name of the node.
func (e *manifestEditor) find(n objectName, namespace string) (manifest.ObjectRef, error) {
	kind := manifestKinds[n.kind.Singular]
	base := n.name
	if kind == "Pod" {
		base = strings.TrimSuffix(base, "-"+strings.ToLower(e.node))
	}
	found := map[manifest.ObjectRef]bool{}
	var all []manifest.ObjectRef
	known := e.set.Refs()
	for i := range e.sources {
		for _, u := range e.sources[i].Units {
			for _, pod := range u.Pods {
				ns, name, _ := strings.Cut(pod, "/")
				known = append(known, manifest.ObjectRef{Kind: "Pod", Namespace: ns, Name: name})
			}
		}
	}
	for _, o := range e.others {
		known = append(known, manifest.ObjectRef{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name})
	}
	for _, ref := range known {
		if ref.Kind == kind && (ref.Name == base || ref.Name == n.name) &&
			(namespace == "" || ref.Namespace == "" || ref.Namespace == namespace) && !found[ref] {
			found[ref], all = true, append(all, ref)
		}
	}
	switch {
	case len(all) == 0:
		ref := manifest.ObjectRef{Kind: kind, Name: base, Namespace: namespace}
		if namespace == "" && n.kind.Namespaced {
			ref.Namespace = "default"
		}
		return ref, nil // Remove reports that there is none
	case len(all) > 1 && all[0].Namespace != all[1].Namespace:
		return all[0], fmt.Errorf("%s %q exists in namespaces %s and %s; select one with --namespace", n.kind.Singular,
			n.name, all[0].Namespace, all[1].Namespace)
	case len(all) > 1:
		return all[0], fmt.Errorf("%s name %q is ambiguous (%s, %s); use --filename", n.kind.Singular, n.name, all[0].Name,
			all[1].Name)
	}
	return all[0], nil
}
