package oracle

// Reasons why podstead and an API server disagree about a manifest.
const (
	clusterOnly     = "unsupported here: only a cluster provides it, and it would be dropped silently"
	objectHere      = "accepted here: podstead reads these objects from manifests, a kubelet only pods"
	otherOS         = "unsupported here: it is for Windows, and this node runs Linux"
	silentlyIgnored = "rejected here: the runtime would start the pod without it and report nothing"
	ownSetting      = "rejected here: it is a setting of podstead that Kubernetes does not know"
	removedFromAPI  = "unsupported here: Kubernetes has removed it"
	duplicateName   = "rejected here: kubectl would apply the second as an update, but a directory has no order"
	keyTwice        = "rejected here: a decoder silently drops the first of two equal keys"
	emptyItem       = "rejected here: a decoder turns an unfinished item into an empty string"
	unsafeUID       = "rejected here: an API server assigns its own uid; here directories are named after it"
)

// verdictDifferences maps the manifests of the corpus on which the two disagree
// to the reason. What podstead does not support yet is not listed.
var verdictDifferences = map[string]string{
	"app-empty-value.yaml":                emptyItem,
	"nginx-service-beside.yaml":           objectHere,
	"app-key-twice.yaml":                  keyTwice,
	"app-token-volume.yaml":               clusterOnly,
	"app-windows.yaml":                    otherOS,
	"bind9-same-name-twice.yaml":          duplicateName,
	"cassandra-ephemeral-volume.yaml":     clusterOnly,
	"ceph-rbd-volume.yaml":                clusterOnly,
	"envoy-restart-annotation-typo.yaml":  ownSetting,
	"git-repo-volume.yaml":                removedFromAPI,
	"keepalived-misspelt-capability.yaml": silentlyIgnored,
	"pod-uid-path.yaml":                   unsafeUID,
	"resource-claim.yaml":                 clusterOnly,
	"traefik-service-account.yaml":        clusterOnly,
}
