package binding

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/manifest/validation"
)

func storage(size string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
}

func volume(name, class, size string, modes ...v1.PersistentVolumeAccessMode) *v1.PersistentVolume {
	if modes == nil {
		modes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	}
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"disk": name}},
		Spec: v1.PersistentVolumeSpec{
			Capacity: storage(size), AccessModes: modes, StorageClassName: class,
			PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/" + name}},
		},
	}
}

// claim returns a claim of class ssd for 2Gi, changed by a function.
func claim(change func(*v1.PersistentVolumeClaimSpec)) *v1.PersistentVolumeClaim {
	class := "ssd"
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "data"},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, StorageClassName: &class,
			Resources: v1.VolumeResourceRequirements{Requests: storage("2Gi")},
		}}
	if change != nil {
		change(&c.Spec)
	}
	return c
}

func directoryClass(name string) *storagev1.StorageClass {
	policy := v1.PersistentVolumeReclaimDelete
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: validation.ProvisionerDirectory, ReclaimPolicy: &policy,
		Parameters: map[string]string{validation.ParameterPath: "/mnt/" + name, validation.ParameterMountPoint: "/mnt"},
	}
}

func reserved(v *v1.PersistentVolume, name string) *v1.PersistentVolume {
	v.Spec.ClaimRef = &v1.ObjectReference{Namespace: "apps", Name: name}
	return v
}

func block(v *v1.PersistentVolume) *v1.PersistentVolume {
	mode := v1.PersistentVolumeBlock
	v.Spec.VolumeMode = &mode
	return v
}

func elsewhere(v *v1.PersistentVolume) *v1.PersistentVolume {
	v.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{}}
	return v
}

func TestChoose(t *testing.T) {
	empty, named := "", "hdd"
	isDefault := directoryClass("default")
	isDefault.Annotations = map[string]string{validation.AnnotationDefaultClass: "true"}
	second := directoryClass("second")
	second.Annotations = isDefault.Annotations
	none := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "ssd"}, Provisioner: validation.ProvisionerNone}
	asBlock := func(s *v1.PersistentVolumeClaimSpec) { mode := v1.PersistentVolumeBlock; s.VolumeMode = &mode }
	noClass := func(s *v1.PersistentVolumeClaimSpec) { s.StorageClassName = nil }
	other := claim(func(s *v1.PersistentVolumeClaimSpec) { s.VolumeName = "a" })
	other.Name = "other"
	for name, test := range map[string]struct {
		claim   *v1.PersistentVolumeClaim
		volumes []*v1.PersistentVolume
		classes []*storagev1.StorageClass
		// claims are declared in addition to the claim.
		claims []*v1.PersistentVolumeClaim
		bound  []Binding
		// want is the name of the volume, "own" for a directory of its own; else fault are
		// parts of the error.
		want  string
		fault []string
	}{
		"the smallest that fits": {claim: claim(nil),
			volumes: []*v1.PersistentVolume{volume("a", "ssd", "9Gi"), volume("b", "ssd", "1Gi"), volume("c", "ssd", "3Gi"),
				volume("d", "ssd", "4Gi")}, want: "c"},
		"the first of equal ones": {claim: claim(nil),
			volumes: []*v1.PersistentVolume{volume("a", "ssd", "3Gi"), volume("b", "ssd", "3Gi")}, want: "a"},
		"not of another class": {claim: claim(nil), volumes: []*v1.PersistentVolume{volume("a", "hdd", "3Gi")},
			fault: []string{`StorageClass "ssd" is in no manifest`, `a has class "hdd", not "ssd"`, "add a StorageClass ssd"}},
		"all access modes": {claim: claim(func(s *v1.PersistentVolumeClaimSpec) {
			s.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany}
		}), volumes: []*v1.PersistentVolume{volume("a", "ssd", "2Gi"),
			volume("b", "ssd", "3Gi", v1.ReadOnlyMany, v1.ReadWriteOnce)}, want: "b"},
		"not one that is bound": {claim: claim(nil), volumes: []*v1.PersistentVolume{volume("a", "ssd", "2Gi")},
			classes: []*storagev1.StorageClass{none},
			bound:   []Binding{{Namespace: "apps", Claim: "other", Volume: volume("a", "ssd", "2Gi")}},
			fault:   []string{"a is bound to claim apps/other", `add a PersistentVolume of class "ssd" with at least 2Gi`}},
		"not one that is reserved": {claim: claim(nil),
			volumes: []*v1.PersistentVolume{reserved(volume("a", "ssd", "2Gi"), "other")},
			fault:   []string{"a is reserved for claim apps/other"}},
		"not one that another claim names": {claim: claim(nil), claims: []*v1.PersistentVolumeClaim{other},
			volumes: []*v1.PersistentVolume{volume("a", "ssd", "2Gi"), volume("b", "ssd", "9Gi")}, want: "b"},
		"none but one that another claim names": {claim: claim(nil), claims: []*v1.PersistentVolumeClaim{other},
			volumes: []*v1.PersistentVolume{volume("a", "ssd", "2Gi")},
			fault:   []string{"a is reserved for claim apps/other, which names it in spec.volumeName"}},
		"an own directory instead of one that another claim names": {claim: claim(noClass),
			claims: []*v1.PersistentVolumeClaim{other}, volumes: []*v1.PersistentVolume{volume("a", "", "2Gi")}, want: "own"},
		"one that both name": {claim: claim(func(s *v1.PersistentVolumeClaimSpec) { s.VolumeName = "a" }),
			claims: []*v1.PersistentVolumeClaim{other}, volumes: []*v1.PersistentVolume{volume("a", "ssd", "2Gi")}, want: "a"},
		"one that another claim names but is reserved for it": {claim: claim(nil),
			claims:  []*v1.PersistentVolumeClaim{other},
			volumes: []*v1.PersistentVolume{reserved(volume("a", "ssd", "2Gi"), "data")}, want: "a"},
		"the one that is reserved for it": {claim: claim(nil),
			volumes: []*v1.PersistentVolume{volume("a", "ssd", "2Gi"), reserved(volume("b", "hdd", "9Gi"), "data")}, want: "b"},
		"not one that is on another node": {claim: claim(nil),
			volumes: []*v1.PersistentVolume{elsewhere(volume("a", "ssd", "2Gi"))}, fault: []string{"a is not on this node"}},
		"not a block device": {claim: claim(nil),
			volumes: []*v1.PersistentVolume{block(volume("a", "ssd", "2Gi")), volume("b", "ssd", "9Gi")}, want: "b"},
		"a block device": {claim: claim(asBlock),
			volumes: []*v1.PersistentVolume{volume("a", "ssd", "2Gi"), block(volume("b", "ssd", "9Gi"))}, want: "b"},
		"no block device": {claim: claim(asBlock),
			volumes: []*v1.PersistentVolume{volume("a", "ssd", "2Gi")},
			classes: []*storagev1.StorageClass{directoryClass("ssd")},
			fault:   []string{"a has volumeMode Filesystem, not Block", "volumeMode Block, and local.path of a block device"}},
		"a block device that is reserved": {claim: claim(asBlock),
			volumes: []*v1.PersistentVolume{reserved(volume("a", "ssd", "2Gi"), "data")},
			fault:   []string{"a has volumeMode Filesystem"}},
		"a block device without a class": {
			claim: claim(func(s *v1.PersistentVolumeClaimSpec) { asBlock(s); s.StorageClassName = nil }),
			fault: []string{"no PersistentVolume is declared", "volumeMode Block"}},
		"a block device of an unknown class": {claim: claim(asBlock),
			fault: []string{`add a PersistentVolume of class "ssd" with at least 2Gi`}},
		"the one that it names": {claim: claim(func(s *v1.PersistentVolumeClaimSpec) { s.VolumeName = "b" }),
			volumes: []*v1.PersistentVolume{volume("a", "ssd", "2Gi"), volume("b", "ssd", "9Gi")}, want: "b"},
		"one that it names, of another class": {
			claim:   claim(func(s *v1.PersistentVolumeClaimSpec) { s.VolumeName = "a"; s.StorageClassName = &named }),
			volumes: []*v1.PersistentVolume{volume("a", "ssd", "2Gi")},
			fault:   []string{"spec.volumeName", `has class "ssd", not "hdd"`}},
		"one that it names, which is missing": {claim: claim(func(s *v1.PersistentVolumeClaimSpec) { s.VolumeName = "x" }),
			fault: []string{`PersistentVolume "x" is in no manifest`}},
		"the one that it selects": {claim: claim(func(s *v1.PersistentVolumeClaimSpec) {
			s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "b"}}
		}), volumes: []*v1.PersistentVolume{volume("a", "ssd", "2Gi"), volume("b", "ssd", "9Gi")}, want: "b"},
		"a class does not provision what is selected": {claim: claim(func(s *v1.PersistentVolumeClaimSpec) {
			s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "x"}}
		}), volumes: []*v1.PersistentVolume{volume("a", "ssd", "2Gi")},
			classes: []*storagev1.StorageClass{directoryClass("ssd")},
			fault:   []string{"a does not match spec.selector", "remove spec.selector"}},
		"a class provisions": {claim: claim(nil), classes: []*storagev1.StorageClass{directoryClass("ssd")},
			want: "apps.data"},
		"a volume goes before provisioning": {claim: claim(nil), volumes: []*v1.PersistentVolume{volume("a", "ssd", "2Gi")},
			classes: []*storagev1.StorageClass{directoryClass("ssd")}, want: "a"},
		"the default class": {claim: claim(noClass),
			classes: []*storagev1.StorageClass{directoryClass("ssd"), isDefault}, want: "apps.data"},
		"two default classes": {claim: claim(noClass), classes: []*storagev1.StorageClass{second, isDefault},
			fault: []string{"second and default are both the default"}},
		"explicitly no class": {
			claim:   claim(func(s *v1.PersistentVolumeClaimSpec) { s.StorageClassName = &empty }),
			classes: []*storagev1.StorageClass{isDefault}, want: "own"},
		"no class and no default": {claim: claim(noClass), classes: []*storagev1.StorageClass{directoryClass("ssd")},
			volumes: []*v1.PersistentVolume{volume("a", "ssd", "2Gi")}, want: "own"},
		"no class, and a volume without": {claim: claim(noClass), volumes: []*v1.PersistentVolume{volume("a", "", "2Gi")},
			want: "a"},
		"a selector without a class": {claim: claim(func(s *v1.PersistentVolumeClaimSpec) {
			s.StorageClassName, s.Selector = nil, &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "x"}}
		}), fault: []string{"no PersistentVolume is declared", "whose labels match spec.selector"}},
	} {
		got, err := Choose(&Request{Claim: test.claim, Claims: append(test.claims, test.claim), Volumes: test.volumes,
			Classes: test.classes, Bound: test.bound,
			OnNode: func(*v1.NodeSelector) bool { return false }})
		chosen := "own"
		if got != nil {
			chosen = got.Volume.Name
			if ref := got.Volume.Spec.ClaimRef; ref == nil || ref.Namespace != "apps" || ref.Name != "data" ||
				!got.IsOf("apps", "data") {
				t.Errorf("%s: claimRef %v", name, ref)
			}
		}
		if test.want != "" && (err != nil || chosen != test.want) {
			t.Errorf("%s: got %s, %v; want %s", name, chosen, err, test.want)
		}
		for _, part := range test.fault {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: got %s, %v; want an error with %q", name, chosen, err, part)
			}
		}
		for _, v := range test.volumes {
			if ref := v.Spec.ClaimRef; ref != nil && ref.Kind != "" {
				t.Errorf("%s: the declared volume was written to", name)
			}
		}
	}
	got, err := Choose(&Request{Claim: claim(nil), Classes: []*storagev1.StorageClass{directoryClass("ssd")}})
	if err != nil || !got.Provisioned || got.MountPoint != "/mnt" || got.Used ||
		got.Volume.Spec.HostPath.Path != "/mnt/ssd/apps/data" ||
		got.Volume.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete ||
		got.Volume.Spec.StorageClassName != "ssd" {
		t.Errorf("the provisioned volume: %+v, %v", got, err)
	}
}

// The directory of a claim is never inside that of another claim, which may be deleted.
func TestOverlappingClasses(t *testing.T) {
	outer, ssd := directoryClass("outer"), directoryClass("ssd")
	outer.Parameters[validation.ParameterPath] = "/mnt"
	other := claim(func(spec *v1.PersistentVolumeClaimSpec) { spec.StorageClassName = &outer.Name })
	other.Namespace, other.Name = "ssd", "apps"
	classes := []*storagev1.StorageClass{outer, ssd}
	first, err := Choose(&Request{Claim: other, Classes: classes})
	if err != nil {
		t.Fatal(err)
	}
	second, err := Choose(&Request{Claim: claim(nil), Classes: classes, Bound: []Binding{*first}})
	if second != nil || err == nil || !strings.Contains(err.Error(), "/mnt/ssd/apps/data") ||
		!strings.Contains(err.Error(), "claim ssd/apps") {
		t.Errorf("%+v %v", second, err)
	}
}
