// SPDX-License-Identifier: Apache-2.0

// Package words is what the Go clients share: the words of tests/e2e/client_words.py and of its members.
package words

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Failed is an answer 'error NAME MESSAGE'.
type Failed struct{ Name, Message string }

func (f *Failed) Error() string { return f.Name + ": " + f.Message }

// NameOfCode is Kafka's name of an error code.
func NameOfCode(code int16) string {
	if typed := kerr.TypedErrorForCode(code); typed != nil {
		return typed.Message
	}
	return ""
}

// Header is one of a record, in their order; a nil Value is null.
type Header struct {
	Name  string
	Value []byte
}

// Record as it is written and read; a nil Key or Value is null.
type Record struct {
	Partition int32
	Offset    int64
	Timestamp int64
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Row is a line of an answer.
type Row []any

// Call carries out one word; records are those that follow a 'produce'.
type Call func(args []string, records []Record) ([]Row, error)

func pack(data []byte) string {
	if data == nil {
		return "-"
	}
	return "=" + base64.StdEncoding.EncodeToString(data)
}

func unpack(text string) ([]byte, error) {
	if text == "-" {
		return nil, nil
	}
	data, err := base64.StdEncoding.DecodeString(text[1:])
	if data == nil {
		data = []byte{}
	}
	return data, err
}

func readRecord(line string) (record Record, err error) {
	fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
	if len(fields) != 5 {
		return record, fmt.Errorf("a record of %d fields", len(fields))
	}
	partition, err := strconv.ParseInt(fields[0], 10, 32)
	if err != nil {
		return record, err
	}
	record.Partition = int32(partition)
	if record.Timestamp, err = strconv.ParseInt(fields[1], 10, 64); err != nil {
		return record, err
	}
	if record.Key, err = unpack(fields[2]); err != nil {
		return record, err
	}
	if record.Value, err = unpack(fields[3]); err != nil {
		return record, err
	}
	for _, item := range strings.Split(fields[4], ",") {
		name, value, is := strings.Cut(item, ":")
		if !is {
			continue
		}
		decoded, err := base64.StdEncoding.DecodeString(name)
		if err != nil {
			return record, err
		}
		data, err := unpack(value)
		if err != nil {
			return record, err
		}
		record.Headers = append(record.Headers, Header{string(decoded), data})
	}
	return record, nil
}

// RecordRows are the rows of what was consumed.
func RecordRows(records []Record) []Row {
	rows := make([]Row, 0, len(records))
	for _, r := range records {
		headers := make([]string, 0, len(r.Headers))
		for _, h := range r.Headers {
			headers = append(headers, base64.StdEncoding.EncodeToString([]byte(h.Name))+":"+pack(h.Value))
		}
		rows = append(rows, Row{r.Partition, r.Offset, r.Timestamp, pack(r.Key), pack(r.Value), strings.Join(headers, ",")})
	}
	return rows
}

// Sorted brings rows into the order of their first fields.
func Sorted(rows []Row) []Row {
	sort.Slice(rows, func(i, j int) bool {
		if a, is := rows[i][0].(int32); is {
			return a < rows[j][0].(int32)
		}
		return fmt.Sprint(rows[i][0]) < fmt.Sprint(rows[j][0])
	})
	return rows
}

// Configs reads K=V,...
func Configs(text string) map[string]string {
	configs := map[string]string{}
	for _, item := range strings.Split(text, ",") {
		if name, value, is := strings.Cut(item, "="); is {
			configs[name] = value
		}
	}
	return configs
}

// Offsets reads PARTITION:OFFSET,...
func Offsets(text string) (map[int32]int64, error) {
	offsets := map[int32]int64{}
	for _, item := range strings.Split(text, ",") {
		var partition int32
		var offset int64
		if _, err := fmt.Sscanf(item, "%d:%d", &partition, &offset); err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		offsets[partition] = offset
	}
	return offsets, nil
}

// Where is what 'consume' starts from.
type Where struct {
	Kind string // beginning, offset or time
	At   int64
}

// ReadWhere reads beginning, offset:N or time:MS.
func ReadWhere(args []string, at int) (Where, error) {
	if len(args) <= at {
		return Where{Kind: "beginning"}, nil
	}
	kind, number, _ := strings.Cut(args[at], ":")
	if kind == "beginning" {
		return Where{Kind: kind}, nil
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if kind != "offset" && kind != "time" {
		err = fmt.Errorf("no place to start from: %q", args[at])
	}
	return Where{Kind: kind, At: n}, err
}

// NameOr is the name that nameOf has for an error, or ERROR.
func NameOr(nameOf func(error) string, err error) string {
	if name := nameOf(err); name != "" {
		return name
	}
	return "ERROR"
}

func flat(text string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(text)
}

// Serve answers standard input by the calls until it ends; nameOf gives the name of a client's own error, or "".
func Serve(calls map[string]Call, nameOf func(error) string) {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		args := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		var records []Record
		if args[0] == "produce" {
			count, _ := strconv.Atoi(args[3])
			for range count {
				row, readErr := in.ReadString('\n')
				record, rowErr := readRecord(row)
				err = errors.Join(err, readErr, rowErr)
				records = append(records, record)
			}
		}
		var rows []Row
		if call, is := calls[args[0]]; !is {
			err = &Failed{"NO_SUCH_CALL", args[0]}
		} else if err == nil {
			rows, err = call(args[1:], records)
		}
		var failed *Failed
		switch {
		case err == nil:
			for _, row := range rows {
				for i, field := range row {
					if i > 0 {
						_ = out.WriteByte('\t')
					}
					_, _ = out.WriteString(strings.ReplaceAll(fmt.Sprint(field), "\n", " "))
				}
				_ = out.WriteByte('\n')
			}
			_, _ = out.WriteString("ok\n")
		case errors.As(err, &failed):
			fmt.Fprintf(out, "error\t%s\t%s\n", failed.Name, flat(failed.Message))
		default:
			fmt.Fprintf(out, "error\t%s\t%s\n", NameOr(nameOf, err), flat(err.Error()))
		}
		_ = out.Flush()
	}
}

// ---- members ----

var saying sync.Mutex

// Say is one line of a member.
func Say(words ...any) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Println(words...)
}

// Partitions is P,P in order.
func Partitions(partitions []int32) string {
	sort.Slice(partitions, func(i, j int) bool { return partitions[i] < partitions[j] })
	texts := make([]string, len(partitions))
	for i, p := range partitions {
		texts[i] = strconv.Itoa(int(p))
	}
	return strings.Join(texts, ",")
}

// MemberArgs are BOOTSTRAP GROUP TOPIC STRATEGY [INSTANCE], and WEIR_SESSION_MS of the environment.
type MemberArgs struct {
	Bootstrap, Group, Topic, Strategy, Instance string
	Session                                     time.Duration
}

func session() time.Duration {
	if ms, err := strconv.Atoi(os.Getenv("WEIR_SESSION_MS")); err == nil {
		return time.Duration(ms) * time.Millisecond
	}
	return 10 * time.Second
}

// RunMember runs a member where that is asked for ('PROGRAM member ...'), until standard input says something or ends.
func RunMember(member func(context.Context, MemberArgs) error) (is bool) {
	if len(os.Args) < 6 || os.Args[1] != "member" {
		return false
	}
	args := MemberArgs{os.Args[2], os.Args[3], os.Args[4], os.Args[5], "", session()}
	if len(os.Args) > 6 {
		args.Instance = os.Args[6]
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		cancel()
	}()
	if err := member(ctx, args); err != nil {
		Say("error", err)
		os.Exit(1)
	}
	return true
}
