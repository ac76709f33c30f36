// SPDX-License-Identifier: Apache-2.0

// A second witness of the codec: franz-go's messages (kmsg), which its author wrote from Kafka's protocol by hand.
//
//	codec write COUNT [SEED]   prints COUNT random values of every request and response in every version: kind key version name hex
//	codec check                reads such lines, as vectors.c prints them; reads each value, writes it again, and compares the bytes.
//	                           Lines of what kmsg does not have are counted. Exit 1 when some differ.
package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// message is what requests and responses have in common.
type message interface {
	MaxVersion() int16
	SetVersion(int16)
	AppendTo([]byte) []byte
	ReadFrom([]byte) error
}

func empty(kind string, key int16) message {
	switch kind {
	case "request":
		if m := kmsg.RequestForKey(key); m != nil {
			return m
		}
	case "response":
		if m := kmsg.ResponseForKey(key); m != nil {
			return m
		}
	}
	return nil
}

// tags are fields that kmsg writes in every version that has tags, though Kafka has them from the version here only: there they stay at
// their default, which is not written.
var tags = map[string]int16{
	"ProduceResponseTopicPartition.CurrentLeader": 10, "ProduceResponse.Brokers": 10,
	"FetchRequest.ReplicaState": 15, "FetchRequestTopicPartition.ReplicaDirectoryID": 17, "FetchRequestTopicPartition.HighWatermark": 18,
	"FetchResponse.Brokers": 16, "VoteResponse.NodeEndpoints": 1, "FetchSnapshotRequestTopicPartition.ReplicaDirectoryID": 1,
	"FetchSnapshotResponse.NodeEndpoints": 1, "BrokerHeartbeatRequest.OfflineLogDirs": 1, "BrokerHeartbeatRequest.CordonedLogDirs": 2,
}

// notNull is what kmsg writes as null in every version, though Kafka takes that in some only.
var notNull = map[string]bool{"ShareFetchResponseTopicPartition.Records": true}

// fill gives a value to all that can be set. Lengths are often 0, and now and then past what one byte of a varint can say.
func fill(value reflect.Value, version int16, dice *rand.Rand, depth int) {
	switch value.Kind() {
	case reflect.Struct:
		if defaults, is := value.Addr().Interface().(interface{ Default() }); is {
			defaults.Default()
		}
		for i := range value.NumField() {
			name := value.Type().Field(i).Name
			place := value.Type().Name() + "." + name
			if name == "Version" && depth == 0 || name == "UnknownTags" || version < tags[place] {
				continue
			}
			fill(value.Field(i), version, dice, depth+1)
			if notNull[place] && value.Field(i).IsNil() {
				value.Field(i).SetBytes([]byte{})
			}
		}
	case reflect.Pointer:
		if dice.IntN(3) == 0 {
			value.SetZero()
			return
		}
		value.Set(reflect.New(value.Type().Elem()))
		fill(value.Elem(), version, dice, depth)
	case reflect.Slice:
		count := dice.IntN(4)
		if value.Type().Elem().Kind() == reflect.Uint8 {
			count = length(dice)
		}
		if count == 0 && dice.IntN(2) == 0 {
			value.SetZero()
			return
		}
		value.Set(reflect.MakeSlice(value.Type(), count, count))
		for i := range count {
			fill(value.Index(i), version, dice, depth+1)
		}
	case reflect.Array:
		for i := range value.Len() {
			fill(value.Index(i), version, dice, depth)
		}
	case reflect.String:
		text := make([]byte, length(dice))
		for i := range text {
			text[i] = byte('a' + dice.IntN(26))
		}
		value.SetString(string(text))
	case reflect.Bool:
		value.SetBool(dice.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		value.SetInt(int64(dice.Uint64()) >> dice.IntN(64))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		value.SetUint(dice.Uint64() >> dice.IntN(64))
	case reflect.Float64:
		value.SetFloat(dice.NormFloat64())
	default:
		panic("a field of kind " + value.Kind().String())
	}
}

func length(dice *rand.Rand) int {
	switch dice.IntN(20) {
	case 0:
		return 120 + dice.IntN(20)
	case 1, 2, 3:
		return 0
	}
	return dice.IntN(12)
}

func write(count int, seed uint64) {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		for _, kind := range []string{"request", "response"} {
			m := empty(kind, key)
			if m == nil {
				continue
			}
			for version := int16(0); version <= m.MaxVersion(); version++ {
				for number := range count {
					dice := rand.New(rand.NewPCG(seed+uint64(number), uint64(key)<<20|uint64(version)<<4|uint64(len(kind))))
					m := empty(kind, key)
					m.SetVersion(version)
					fill(reflect.ValueOf(m).Elem(), version, dice, 0)
					fmt.Fprintf(out, "%s %d %d %s %x\n", kind, key, version, kmsg.NameForKey(key), m.AppendTo(nil))
				}
			}
		}
	}
}

func check() bool {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	same, different := 0, 0
	seen, lacking := map[string]bool{}, map[string]bool{}
	for in.Scan() {
		fields := strings.Split(in.Text(), " ")
		key, _ := strconv.ParseInt(fields[1], 10, 32)
		version, _ := strconv.ParseInt(fields[2], 10, 16)
		data, err := hex.DecodeString(fields[4])
		if err != nil {
			panic(err)
		}
		var m message
		if key <= kmsg.MaxKey && (fields[0] == "request" || fields[0] == "response") {
			m = empty(fields[0], int16(key))
		}
		what := strings.Join(fields[:4], " ")
		if m == nil || int16(version) > m.MaxVersion() {
			lacking[what] = true
			continue
		}
		m.SetVersion(int16(version))
		err = m.ReadFrom(data)
		again := m.AppendTo(nil)
		if err != nil || !bytes.Equal(again, data) {
			different++
			if different <= 40 {
				fmt.Printf("%s: %v\n  ours  %s\n  kmsg  %x\n", what, err, fields[4], again)
			}
			continue
		}
		same++
		seen[what] = true
	}
	fmt.Printf("ours read by kmsg: %d values the same in %d versions of messages, %d differ; kmsg lacks %d versions\n", same, len(seen), different, len(lacking))
	return different == 0 && same > 0
}

func main() {
	switch {
	case len(os.Args) > 2 && os.Args[1] == "write":
		count, err := strconv.Atoi(os.Args[2])
		if err != nil {
			panic(err)
		}
		seed := uint64(1)
		if len(os.Args) > 3 {
			if seed, err = strconv.ParseUint(os.Args[3], 10, 64); err != nil {
				panic(err)
			}
		}
		write(count, seed)
	case len(os.Args) == 2 && os.Args[1] == "check":
		if !check() {
			os.Exit(1)
		}
	default:
		fmt.Fprintln(os.Stderr, "usage: codec write COUNT [SEED] | codec check")
		os.Exit(2)
	}
}
