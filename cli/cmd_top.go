package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/terminal"
	"github.com/podstead/podstead/internal/device"
)

// usagePath is the path of the resource metrics API.
const usagePath = "/apis/metrics.k8s.io/v1beta1/"

// topOptions are the flags of top.
type topOptions struct {
	socket, namespace, labels, sortBy string
	containers, noHeaders             bool
}

func topCommand() *cobra.Command {
	top := &cobra.Command{
		Use:   "top",
		Short: "Display resource (CPU/memory) usage",
		Long: `Display the current CPU usage, in millicores, and memory usage (the working set) of
pods or of the node. The node also has the devices that containers have, of those that can be
allocated. The first request after some time takes a second, since usage is
only measured on request.`,
		Example: `  # Show the usage of all pods
  podstead top pods

  # Show the usage of each container, the highest memory usage first
  podstead top pods --containers --sort-by memory

  # Show the usage of the node
  podstead top nodes`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown resource %q; use podstead top pods or podstead top nodes", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var o topOptions
	pods := &cobra.Command{
		Use: "pods [NAME...]", Aliases: []string{"pod", "po"}, Short: "Display resource (CPU/memory) usage of pods",
		RunE: func(cmd *cobra.Command, names []string) error { return runTopPods(cmd, o, names) },
	}
	o.selectPods(pods)
	pods.Flags().BoolVar(&o.containers, "containers", false, "show the usage of each container")
	nodes := &cobra.Command{
		Use: "nodes", Aliases: []string{"node", "no"}, Short: "Display resource (CPU/memory) usage of the node",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runTopNodes(cmd, o) },
	}
	for _, cmd := range []*cobra.Command{pods, nodes} {
		o.output(cmd)
	}
	top.AddCommand(pods, nodes)
	return top
}

// statsCommand is top pods --containers under the name that docker and podman have for it.
func statsCommand() *cobra.Command {
	o := topOptions{containers: true}
	cmd := &cobra.Command{
		Use: "stats [POD...]", Short: "Display resource (CPU/memory) usage of containers",
		Long: `Display the current CPU usage, in millicores, and memory usage (the working set) of each
container, as podstead top pods --containers does.`,
		Example: `  # Show the container that uses the most memory first
  podstead stats --sort-by memory`,
		RunE: func(cmd *cobra.Command, names []string) error { return runTopPods(cmd, o, names) },
	}
	o.selectPods(cmd)
	o.output(cmd)
	return cmd
}

// selectPods adds the flags that select pods.
func (o *topOptions) selectPods(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "", "only pods in this `namespace`")
	f.BoolP("all-namespaces", "A", true, "all namespaces; this is the default")
	f.StringVarP(&o.labels, "selector", "l", "", "label `selector`, such as app=web,tier!=test")
}

// output adds the flags of the table.
func (o *topOptions) output(cmd *cobra.Command) {
	socketFlag(cmd.Flags(), &o.socket)
	cmd.Flags().StringVar(&o.sortBy, "sort-by", "", "sort by `cpu` or memory, highest first; default is by name")
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "do not print headers")
}

// usage is the resource usage of a container or a node in the API.
type usage map[v1.ResourceName]resource.Quantity

func (u usage) milli() int64 { q := u[v1.ResourceCPU]; return q.MilliValue() }
func (u usage) bytes() int64 { q := u[v1.ResourceMemory]; return q.Value() }

// cells returns the cells of the columns CPU(cores) and MEMORY(bytes), as kubectl prints
// them.
func (u usage) cells() []string {
	return []string{fmt.Sprintf("%dm", u.milli()), fmt.Sprintf("%dMi", u.bytes()>>20)}
}

func (u usage) add(more usage) {
	for name, q := range more {
		sum := u[name]
		sum.Add(q)
		u[name] = sum
	}
}

// topRow is a row of the table with its sort keys.
type topRow struct {
	cells         []string
	milli, memory int64
}

// sortRows sorts by the given resource, then by name.
func sortRows(rows []topRow, by string) ([][]string, error) {
	key, ok := map[string]func(topRow) int64{
		"": func(topRow) int64 { return 0 }, "cpu": func(r topRow) int64 { return r.milli },
		"memory": func(r topRow) int64 { return r.memory },
	}[by]
	if !ok {
		return nil, usageError(fmt.Errorf("--sort-by %q: must be cpu or memory", by))
	}
	slices.SortStableFunc(rows, func(a, b topRow) int { return cmp.Compare(key(b), key(a)) })
	sorted := make([][]string, 0, len(rows))
	for i := range rows {
		sorted = append(sorted, rows[i].cells)
	}
	return sorted, nil
}

// podMetrics is a pod in the resource metrics API.
type podMetrics struct {
	metav1.ObjectMeta `json:"metadata"`
	Containers        []struct {
		Name  string `json:"name"`
		Usage usage  `json:"usage"`
	} `json:"containers"`
}

func runTopPods(cmd *cobra.Command, o topOptions, names []string) error {
	if _, err := sortRows(nil, o.sortBy); err != nil {
		return err
	}
	c := client.New(o.socket)
	pods, err := listPodMetrics(cmd.Context(), c, o)
	if err != nil {
		return err
	}
	missing := map[string]bool{}
	if len(names) > 0 {
		if pods, missing, err = selectPods(cmd.Context(), c, pods, names); err != nil {
			return err
		}
	}
	head := []string{"NAMESPACE", "NAME"}
	if o.containers {
		head = []string{"NAMESPACE", "POD", "NAME"}
	}
	if err := printTop(cmd, o, append(head, "CPU(cores)", "MEMORY(bytes)"), podRows(pods, o.containers)); err != nil {
		return err
	}
	for _, n := range names {
		if missing[n] {
			cmd.PrintErrf("pod %q not found or not running%s\n", n, objects.InNamespace(o.namespace))
		}
	}
	if len(missing) > 0 {
		return &ExitError{Code: ExitFailed}
	}
	return nil
}

func listPodMetrics(ctx context.Context, c *client.Client, o topOptions) ([]podMetrics, error) {
	path := usagePath + "pods"
	if o.namespace != "" {
		path = usagePath + "namespaces/" + url.PathEscape(o.namespace) + "/pods"
	}
	if o.labels != "" {
		path += "?labelSelector=" + url.QueryEscape(o.labels)
	}
	var list struct {
		Items []podMetrics `json:"items"`
	}
	err := c.Get(ctx, path, &list)
	return list.Items, err
}

// selectPods returns the pods that the names on the command line mean, and the names that
// no pod has.
func selectPods(ctx context.Context, c *client.Client, pods []podMetrics, names []string) (selected []podMetrics,
	missing map[string]bool, err error) {
	node, err := objects.NodeName(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	missing = map[string]bool{}
	for _, n := range names {
		missing[n] = true
	}
	for _, pod := range pods {
		i := slices.IndexFunc(names, func(n string) bool {
			bare := objects.TrimPodPrefix(n)
			return bare == pod.Name || bare+"-"+node == pod.Name
		})
		if i >= 0 {
			selected = append(selected, pod)
			delete(missing, names[i])
		}
	}
	return selected, missing, nil
}

// podRows returns one row per pod, or per container, sorted by name.
func podRows(pods []podMetrics, containers bool) (rows []topRow) {
	row := func(u usage, names ...string) {
		rows = append(rows, topRow{append(names, u.cells()...), u.milli(), u.bytes()})
	}
	for i := range pods {
		pod := &pods[i]
		sum := usage{}
		for _, c := range pod.Containers {
			sum.add(c.Usage)
			if containers {
				row(c.Usage, pod.Namespace, pod.Name, c.Name)
			}
		}
		if !containers {
			row(sum, pod.Namespace, pod.Name)
		}
	}
	slices.SortFunc(rows, func(a, b topRow) int { return slices.Compare(a.cells, b.cells) })
	return rows
}

func printTop(cmd *cobra.Command, o topOptions, head []string, rows []topRow) error {
	sorted, err := sortRows(rows, o.sortBy)
	if err != nil {
		return err
	}
	if len(sorted) == 0 {
		cmd.PrintErrln("no running pods found" + objects.InNamespace(o.namespace))
		return nil
	}
	return terminal.Table{Header: head, Rows: sorted, NoHeader: o.noHeaders}.Print(cmd.OutOrStdout())
}

func runTopNodes(cmd *cobra.Command, o topOptions) error {
	if _, err := sortRows(nil, o.sortBy); err != nil {
		return err
	}
	c := client.New(o.socket)
	var list struct {
		Items []struct {
			metav1.ObjectMeta `json:"metadata"`
			Usage             usage `json:"usage"`
		} `json:"items"`
	}
	if err := c.Get(cmd.Context(), usagePath+"nodes", &list); err != nil {
		return err
	}
	var nodes v1.NodeList
	if err := c.Get(cmd.Context(), "/api/v1/nodes", &nodes); err != nil {
		return err
	}
	allocatable := map[string]v1.ResourceList{}
	head, devices := []string{"NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"}, false
	for i := range nodes.Items {
		list := nodes.Items[i].Status.Allocatable
		allocatable[nodes.Items[i].Name] = list
		devices = devices || slices.ContainsFunc(slices.Collect(maps.Keys(list)), device.IsResource)
	}
	var allocated map[v1.ResourceName]int64
	if devices { // a column that kubectl does not have
		head = append(head, "DEVICES")
		var err error
		if allocated, err = allocatedDevices(cmd.Context(), c); err != nil {
			return err
		}
	}
	var rows []topRow
	for i := range list.Items {
		n := &list.Items[i]
		total := allocatable[n.Name]
		cells := n.Usage.cells()
		cells = []string{n.Name, cells[0], share(n.Usage.milli(), total.Cpu().MilliValue()), cells[1],
			share(n.Usage.bytes(), total.Memory().Value())}
		if devices {
			cells = append(cells, devicesInUse(allocated, total))
		}
		rows = append(rows, topRow{cells, n.Usage.milli(), n.Usage.bytes()})
	}
	return printTop(cmd, o, head, rows)
}

// allocatedDevices returns how many devices the pods of the node have, by resource.
func allocatedDevices(ctx context.Context, c *client.Client) (map[v1.ResourceName]int64, error) {
	var list v1.PodList
	if err := c.Get(ctx, "/api/v1/pods", &list); err != nil {
		return nil, err
	}
	var pods []*v1.Pod
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return device.Count(pods), nil
}

// devicesInUse returns how many devices are allocated and how many can be, of each resource.
func devicesInUse(allocated map[v1.ResourceName]int64, allocatable v1.ResourceList) string {
	var cells []string
	for _, name := range slices.Sorted(maps.Keys(allocatable)) {
		if q := allocatable[name]; device.IsResource(name) {
			cells = append(cells, fmt.Sprintf("%s=%d/%d", name, allocated[name], q.Value()))
		}
	}
	return strings.Join(cells, ",")
}

// share returns the usage as a percentage of the allocatable amount.
func share(used, of int64) string {
	if of <= 0 {
		return "<unknown>"
	}
	return fmt.Sprintf("%d%%", used*100/of)
}
