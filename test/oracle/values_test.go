package oracle

import (
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// plainWords are values for plain strings: valid and invalid names and paths, and
// the keywords of some rules.
var plainWords = []string{
	"", " ", "a", "b", "web", "data", "tmp", "init", "Web", "web_1", "-web", "web-", "a.b", "a..b", "a/b", "/", "/abs",
	"/abs/../up",
	"..", "../up", "..data", "a/..b", "x y", " padded ", long, tooLong, strings.Repeat("a.", 127) + "a",
	strings.Repeat("a.", 130),
	"example.com/name", "example.com/a/b", "kubernetes.io/name", "requests.example.com/x", "example.com:signer:name", ":x",
	"1.2.3.4", "01.2.3.4", "::1", "::ffff:1.2.3.4", "host:80,other:81", "host", "0", "-1", "+1", "08", "80", "2147483648",
	"v1", "v2", "metadata.name", "metadata.labels", "metadata.labels['a']", "metadata.labels['a b']",
	"metadata.annotations['A/b']",
	"metadata.name['a']", "spec.host", "spec.nodeName", "spec.restartPolicy", "status.podIP", "status.nothing",
	"limits.cpu", "requests.memory", "limits.hugepages-2Mi", "requests.ephemeral-storage", "limits.nothing",
	"net.core.somaxconn", "net/ipv4/conf/eth0.1/forwarding", "kernel.sem", "fs.mqueue.x", "Kernel",
	"iqn.2001-04.com.example:storage", "iqn.bad", "eui.02004567A425678D", "naa.62004567BA64678D0123456789ABCDEF", "eui",
	"unconfined", "runtime/default", "docker/default", "localhost/a", "localhost/../a", "localhost//a", "RuntimeDefault",
	"https://example.com/x", "/subscriptions/x", "PersistentVolumeClaim", "kubernetes", "orphan", "name", "a:b", "a\\b",
	"a\tb", "A=B", "ä",
	"example.com/web", "example.com/web:1", "example.com/web:latest", "web:latest@sha256:" + strings.Repeat("a", 64),
	"BAD/Image",
	"seccomp.security.alpha.kubernetes.io/pod", "container.seccomp.security.alpha.kubernetes.io/web", "RSA3072",
	"container.apparmor.security.beta.kubernetes.io/web", "container.apparmor.security.beta.kubernetes.io/nobody",
	"controller.kubernetes.io/pod-deletion-cost", "scheduler.alpha.kubernetes.io/tolerations",
	`[{"key":"a b","operator":"Exists"}]`,
	"kubernetes.io/config.mirror", "orphan", "metadata.name", ".",
}

// words are the values for each string type.
var words = map[reflect.Type][]string{}

func wordsOf[T ~string](values ...T) {
	for _, value := range values {
		of := reflect.TypeFor[T]()
		words[of] = append(words[of], string(value))
	}
}

func init() {
	wordsOf(v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever)
	wordsOf(v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyNever)
	wordsOf(v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers)
	wordsOf(v1.ContainerRestartRuleOnExitCodesOpIn, v1.ContainerRestartRuleOnExitCodesOpNotIn)
	wordsOf(v1.DNSClusterFirst, v1.DNSClusterFirstWithHostNet, v1.DNSDefault, v1.DNSNone)
	wordsOf(v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)
	wordsOf(v1.TerminationMessageReadFile, v1.TerminationMessageFallbackToLogsOnError)
	wordsOf(v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP)
	wordsOf(v1.URISchemeHTTP, v1.URISchemeHTTPS)
	wordsOf(v1.SIGTERM, v1.SIGKILL, v1.SIGUSR1, v1.SIGRTMINPLUS3, v1.SIGRTMAX)
	wordsOf(v1.MountPropagationNone, v1.MountPropagationHostToContainer, v1.MountPropagationBidirectional)
	wordsOf(v1.RecursiveReadOnlyDisabled, v1.RecursiveReadOnlyEnabled, v1.RecursiveReadOnlyIfPossible)
	wordsOf(v1.HostPathUnset, v1.HostPathDirectory, v1.HostPathFileOrCreate, v1.HostPathSocket)
	wordsOf(v1.StorageMediumMemory, v1.StorageMediumHugePages)
	wordsOf(v1.NotRequired, v1.RestartContainer)
	wordsOf(v1.ResourceCPU, v1.ResourceMemory, v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage,
		v1.ResourceStorage,
		"hugepages-2Mi", "hugepages-1Gi", "hugepages-x", "hugepages-0", "hugepages-1m", "example.com/gpu", "pods",
		"requests.cpu",
		"kubernetes.io/cpu", "requests.example.com/x", "nothing", "BAD name")
	wordsOf(v1.SeccompProfileTypeLocalhost, v1.SeccompProfileTypeRuntimeDefault, v1.SeccompProfileTypeUnconfined)
	wordsOf(v1.AppArmorProfileTypeLocalhost, v1.AppArmorProfileTypeRuntimeDefault, v1.AppArmorProfileTypeUnconfined)
	wordsOf(v1.DefaultProcMount, v1.UnmaskedProcMount)
	wordsOf[v1.Capability]("SYS_ADMIN", "CAP_SYS_ADMIN", "NET_ADMIN")
	wordsOf(v1.SupplementalGroupsPolicyMerge, v1.SupplementalGroupsPolicyStrict)
	wordsOf(v1.FSGroupChangeAlways, v1.FSGroupChangeOnRootMismatch)
	wordsOf(v1.SELinuxChangePolicyRecursive, v1.SELinuxChangePolicyMountOption)
	wordsOf(v1.Linux, v1.Linux, v1.Windows)
	wordsOf(v1.PreemptNever, v1.PreemptLowerPriority)
	wordsOf(v1.TolerationOpEqual, v1.TolerationOpExists, v1.TolerationOpLt)
	wordsOf(v1.TaintEffectNoExecute, v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule)
	wordsOf(v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist,
		v1.NodeSelectorOpGt, v1.NodeSelectorOpLt)
	wordsOf(v1.DoNotSchedule, v1.ScheduleAnyway)
	wordsOf(v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore)
	wordsOf(metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists,
		metav1.LabelSelectorOpDoesNotExist)
	wordsOf(v1.AzureDataDiskCachingNone, v1.AzureDataDiskCachingReadWrite)
	wordsOf(v1.AzureManagedDisk, v1.AzureSharedBlobDisk)
	wordsOf(v1.ReadWriteOnce, v1.ReadWriteMany, v1.ReadWriteOncePod)
	wordsOf(v1.PersistentVolumeBlock, v1.PersistentVolumeFilesystem)
}
