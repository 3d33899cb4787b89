// Command kubernetes is Kubernetes' control plane and kubeadm in one program, built for the
// end-to-end tests. The name under which it is called selects the component: one build and one
// link instead of four, and one layer for all images. It is a separate module, so that its
// dependencies are not those of the product.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // for CronJobs, as in kube-controller-manager
	_ "unsafe"      // for go:linkname

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/component-base/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app"
	kubeadmerrors "k8s.io/kubernetes/cmd/kubeadm/app/util/errors"
)

// versionVar is the environment variable that replaces the version which the linker sets, for
// tests of upgrades to the next patch release.
const versionVar = "KUBERNETES_VERSION"

// gitVersion is the variable that the linker sets.
//
//go:linkname gitVersion k8s.io/component-base/version.gitVersion
var gitVersion string

func main() {
	if v := os.Getenv(versionVar); v != "" {
		// SetDynamicVersion permits no other patch version than gitVersion's.
		gitVersion = v
		if err := version.SetDynamicVersion(v); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	switch name := filepath.Base(os.Args[0]); name {
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	case "etcd":
		etcdmain.Main(os.Args)
	case "kubeadm":
		kubeadmerrors.HandleError(kubeadm.Run())
	default:
		fmt.Fprintf(os.Stderr, "no component is named %q\n", name)
		os.Exit(2)
	}
}
