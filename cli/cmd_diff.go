package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/manifestfile"
	"github.com/podstead/podstead/cli/objects"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// diffContext is the number of unchanged lines around each change.
const diffContext = 3

// exitDiffFailed is the exit code of diff for a failure, as with diff(1), where 1 means
// that there are differences.
const exitDiffFailed = 2

func diffCommand() *cobra.Command {
	var socket, mode string
	cmd := &cobra.Command{
		Use:   "diff FILE|DIR|-...",
		Short: "Compare manifests with the running pods",
		Long: `Show the differences between running pods and manifests in the unified format. All
defaults are filled in on both sides, so that only real changes are shown. For
Secrets it shows which keys change, not their values.

The exit code is 0 if there are no differences, 1 if there are differences, 2 if a
manifest is invalid or something else fails, 3 if the daemon cannot be reached.`,
		Example: `  # Show what would change if web.yaml were placed in the pods directory
  podstead diff web.yaml

  # Diff generated manifests
  helm template x | podstead diff -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, paths []string) error {
			m, err := manifest.ParseMode(mode)
			if err != nil {
				return usageError(fmt.Errorf("--manifest-validation: %w", err))
			}
			err = runDiff(cmd, client.New(socket), m, paths)
			if Code(err) == ExitFailed && !Silent(err) {
				return &ExitError{Code: exitDiffFailed, Err: err}
			}
			return err
		},
	}
	socketFlag(cmd.Flags(), &socket)
	cmd.Flags().StringVar(&mode, "manifest-validation", string(manifest.ModeStrict),
		"how to treat unknown and duplicate fields: strict, warn or ignore")
	return cmd
}

func runDiff(cmd *cobra.Command, c *client.Client, mode manifest.Mode, paths []string) error {
	node, err := objects.NodeName(cmd.Context(), c)
	if err != nil {
		return err
	}
	d := differ{cmd: cmd, client: c, loader: manifest.NewLoader(node, mode)}
	for _, path := range paths {
		if err := manifestfile.Each(cmd.Context(), path, cmd.InOrStdin(), d.unit); err != nil {
			return err
		}
	}
	switch {
	case d.faults.Fatal():
		return &ExitError{Code: exitDiffFailed}
	case d.compared == 0:
		return errors.New("no manifests found; manifests in a directory must end in .yaml, .yml or .json")
	case d.different:
		return &ExitError{Code: ExitFailed}
	}
	return nil
}

// differ is one invocation of diff.
type differ struct {
	cmd       *cobra.Command
	client    *client.Client
	loader    *manifest.Loader
	faults    manifest.Faults
	compared  int
	different bool
}

func (d *differ) unit(name string, data []byte, unreadable *manifest.Fault) error {
	if unreadable != nil {
		d.faults = append(d.faults, *unreadable)
		d.cmd.PrintErrln(unreadable.Error())
		return nil
	}
	load := func(source manifest.Source) (manifest.Content, manifest.Faults) {
		return d.loader.Load(manifest.LoadRequest{Source: source, Unit: name, Data: data})
	}
	content, faults := load(manifest.SourceFile)
	d.faults = append(d.faults, faults...)
	for _, f := range faults {
		if f.Warning {
			d.cmd.PrintErrln("warning: " + f.Error())
		} else {
			d.cmd.PrintErrln(f.Error())
		}
	}
	d.compared++
	for i, document := range content.Documents {
		running, err := d.running(objects.PodKind(), document.Pod.Namespace, document.Pod.Name)
		if err != nil {
			return err
		}
		desired := document.Pod
		if source := sourceOf(running); source == manifest.SourceHTTP || source == manifest.SourceOCI {
			// Pods from a URL or an artifact have different defaults.
			same, _ := load(source)
			desired = same.Documents[i].Pod
		}
		if err := d.pod(name, running, desired); err != nil {
			return err
		}
	}
	for i := range content.Objects {
		if err := d.object(name, &content.Objects[i]); err != nil {
			return err
		}
	}
	return nil
}

// sourceOf returns the source of a running pod, empty if there is none.
func sourceOf(running *objects.Object) manifest.Source {
	if running == nil {
		return ""
	}
	return manifest.Source(running.Annotations[podinfo.AnnotationSource])
}

// running returns the object of that name, nil if there is none.
func (d *differ) running(k *objects.Kind, namespace, name string) (*objects.Object, error) {
	l, err := objects.Query{Kind: k, Namespace: namespace, Fields: "metadata.name=" + name}.List(d.cmd.Context(), d.client)
	if err != nil || len(l.Objects) == 0 {
		return nil, err
	}
	return l.Objects[0], nil
}

func (d *differ) pod(file string, running *objects.Object, desired *v1.Pod) error {
	from, name := "", desired.Namespace+"/"+manifest.BaseName(desired)
	if running != nil {
		p, err := objects.DecodePod(running)
		if err != nil {
			return err
		}
		if from, err = podText(p); err != nil {
			return err
		}
	}
	to, err := podText(desired)
	if err != nil {
		return err
	}
	return d.show(from, to, "Pod "+name, file)
}

// podText returns the part of a pod that a manifest can set, as YAML.
func podText(p *v1.Pod) (string, error) {
	plain := v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Spec: p.Spec}
	plain.Name, plain.Namespace, plain.Labels = manifest.BaseName(p), p.Namespace, p.Labels
	for key, value := range p.Annotations {
		switch key {
		case podinfo.AnnotationSource, podinfo.AnnotationHash, podinfo.AnnotationSeen, podinfo.AnnotationTemplate,
			podinfo.AnnotationImages:
			continue
		}
		if plain.Annotations == nil {
			plain.Annotations = map[string]string{}
		}
		plain.Annotations[key] = value
	}
	return yamlWithout(plain, "status")
}

// yamlWithout returns an object as YAML without some of its fields.
func yamlWithout(v any, fields ...string) (string, error) {
	text, err := yaml.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("failed to print: %w", err)
	}
	var tree map[string]any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return "", fmt.Errorf("failed to print: %w", err)
	}
	for _, field := range fields {
		delete(tree, field)
	}
	text, err = yaml.Marshal(tree)
	return string(text), err
}

// object compares a ConfigMap or a Secret; the Kubernetes API has no other objects of
// manifests.
func (d *differ) object(file string, desired *manifest.Object) error {
	ref := desired.Ref()
	var k *objects.Kind
	switch {
	case desired.ConfigMap != nil:
		k = objects.MustKind("configmaps")
	case desired.Secret != nil:
		k = objects.MustKind("secrets")
	default:
		return nil
	}
	running, err := d.running(k, ref.Namespace, ref.Name)
	if err != nil {
		return err
	}
	var from, to string
	if desired.ConfigMap != nil {
		from, to, err = configMapTexts(running, desired.ConfigMap)
	} else {
		from, to, err = secretTexts(running, desired.Secret)
	}
	if err != nil {
		return err
	}
	return d.show(from, to, ref.String(), file)
}

func configMapTexts(running *objects.Object, desired *v1.ConfigMap) (from, to string, err error) {
	plain := func(m *v1.ConfigMap) (string, error) {
		stripped := v1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: m.Data,
			BinaryData: m.BinaryData}
		stripped.Name, stripped.Namespace = m.Name, m.Namespace
		return yamlWithout(stripped)
	}
	if running != nil {
		var m v1.ConfigMap
		if err := running.Decode(&m); err != nil {
			return "", "", err
		}
		if from, err = plain(&m); err != nil {
			return "", "", err
		}
	}
	to, err = plain(desired)
	return from, to, err
}

// secretTexts returns Secrets with the names of their keys and which of them differ.
func secretTexts(running *objects.Object, desired *v1.Secret) (from, to string, err error) {
	before := v1.Secret{}
	if running != nil {
		if err := running.Decode(&before); err != nil {
			return "", "", err
		}
	}
	masked := func(s, other *v1.Secret, changed string) (string, error) {
		data := map[string]string{}
		for key, value := range s.Data {
			data[key] = "***"
			if old, there := other.Data[key]; there && string(old) != string(value) {
				data[key] = changed
			}
		}
		return yamlWithout(map[string]any{"apiVersion": "v1", "kind": "Secret",
			"metadata": map[string]any{"name": s.Name, "namespace": s.Namespace}, "type": s.Type, "data": data})
	}
	if running != nil {
		if from, err = masked(&before, desired, "*** (before)"); err != nil {
			return "", "", err
		}
	}
	to, err = masked(desired, &before, "*** (after)")
	return from, to, err
}

// withEnds splits a text into lines that keep their line ends. difflib.SplitLines would
// add an empty line at the end.
func withEnds(text string) []string {
	all := strings.SplitAfter(text, "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

// unified returns the difference of two texts in the unified format; it is empty if
// there is none.
func unified(from, to, fromName, toName string) (string, error) {
	return difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: withEnds(from), FromFile: fromName, B: withEnds(to), ToFile: toName, Context: diffContext, Eol: "\n",
	})
}

func (d *differ) show(from, to, name, file string) error {
	text, err := unified(from, to, name+" (running)", name+" in "+file)
	if err != nil || text == "" {
		return err
	}
	d.different = true
	return printDiff(d.cmd.OutOrStdout(), text)
}
