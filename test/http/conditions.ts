/**
 * Expected outcomes under RFC 9110 §13 for a resource at revision 3, last changed in the second `changed`: the status of GET
 * and HEAD, and whether PUT, PATCH and DELETE take effect. Tags follow §8.8.3, dates §5.6.7.
 */
export interface Condition {
  note: string
  headers: Record<string, string>
  read: 200 | 304 | 412
  write: 'done' | 412
}

export const changedAt = '2026-03-01T12:00:00.500Z'

const changed = 'Sun, 01 Mar 2026 12:00:00 GMT'
const earlier = 'Sun, 01 Mar 2026 11:59:59 GMT'
const later = 'Sun, 01 Mar 2026 12:00:01 GMT'
const future = 'Sun, 01 Mar 2037 12:00:00 GMT'

type Row = [value: string, read: Condition['read'], write: Condition['write'], note: string]

const rows = (header: string, table: Row[]): Condition[] =>
  table.map(([value, read, write, note]) => ({
    note: `${header} ${note}: ${value}`,
    headers: { [header]: value },
    read,
    write,
  }))

/** §13.1.1: true for `*` and for a tag that matches by strong comparison. */
const ifMatch = rows('if-match', [
  ['"3"', 200, 'done', 'with the current tag'],
  ['"2"', 412, 412, 'with an outdated tag'],
  ['"4"', 412, 412, 'with the tag of a future revision'],
  ['W/"3"', 412, 412, 'with the current tag, but weak'],
  ['*', 200, 'done', 'with any tag'],
  [' * ', 200, 'done', 'with an asterisk and surrounding white space'],
  ['"1", "3"', 200, 'done', 'with a list containing the current tag'],
  ['"3","1"', 200, 'done', 'with a list without spaces'],
  ['"1"\t,\t"3"', 200, 'done', 'with a list separated by tabs'],
  ['"1", "2"', 412, 412, 'with a list without the current tag'],
  ['W/"3", "3"', 200, 'done', 'with the tag both weak and strong'],
  ['W/"2", W/"3"', 412, 412, 'with only weak tags'],
  [', "3",, ', 200, 'done', 'with empty elements (§5.6.1)'],
  ['', 412, 412, 'with an empty value'],
  ['""', 412, 412, 'with the empty tag'],
  ['"*"', 412, 412, 'with a quoted asterisk'],
  ['"33"', 412, 412, 'with a tag that starts the same'],
  ['"03"', 412, 412, 'with a tag with a leading zero'],
  ['"3.0"', 412, 412, 'with a tag with a decimal point'],
  ['"1,3"', 412, 412, 'with a tag containing a comma'],
  ['3', 412, 412, 'without quotes'],
  ['"3', 412, 412, 'with an unclosed quote'],
  ['"3 "', 412, 412, 'with a space in the tag'],
  ['w/"3"', 412, 412, 'with a lower-case w'],
  ["'3'", 412, 412, 'with single quotes'],
  ['"2" "3"', 412, 412, 'with a list without a comma'],
  ['"3", oops', 412, 412, 'with a partly invalid list'],
  ['*, "3"', 412, 412, 'with an asterisk in a list'],
  ['"3";q=1', 412, 412, 'with a parameter'],
])

/** §13.1.2: false for `*` and for a tag that matches by weak comparison; then 304 for reads, 412 for writes. */
const ifNoneMatch = rows('if-none-match', [
  ['"3"', 304, 412, 'with the current tag'],
  ['W/"3"', 304, 412, 'with the current tag, but weak'],
  ['*', 304, 412, 'with any tag'],
  ['\t* ', 304, 412, 'with an asterisk and surrounding white space'],
  ['"2"', 200, 'done', 'with an outdated tag'],
  ['W/"2"', 200, 'done', 'with an outdated weak tag'],
  ['"1", "3"', 304, 412, 'with a list containing the current tag'],
  ['"1", W/"3"', 304, 412, 'with a list containing the current tag as a weak one'],
  ['"1","2"', 200, 'done', 'with a list without the current tag'],
  [',, "3"', 304, 412, 'with empty elements (§5.6.1)'],
  ['', 200, 'done', 'with an empty value'],
  ['""', 200, 'done', 'with the empty tag'],
  ['"*"', 200, 'done', 'with a quoted asterisk'],
  ['"33"', 200, 'done', 'with a tag that starts the same'],
  ['"1,3"', 200, 'done', 'with a tag containing a comma'],
  // A malformed condition is never met: no 304 for a read, no change by a write.
  ['3', 200, 412, 'without quotes'],
  ['"3" "4"', 200, 412, 'with a list without a comma'],
  ['"3", oops', 200, 412, 'with a partly invalid list'],
  ['"2", *', 200, 412, 'with an asterisk in a list'],
  ['w/"3"', 200, 412, 'with a lower-case w'],
])

/** §13.1.3: only for GET and HEAD; 304 if not changed after that second; an invalid HTTP date is ignored. */
const ifModifiedSince = rows('if-modified-since', [
  [changed, 304, 'done', 'in the second of the change'],
  [earlier, 200, 'done', 'a second before'],
  [later, 304, 'done', 'a second after'],
  [future, 304, 'done', 'in the future'],
  ['Sunday, 01-Mar-26 12:00:00 GMT', 304, 'done', 'in the form of RFC 850'],
  ['Sunday, 01-Mar-26 11:59:59 GMT', 200, 'done', 'a second before in the form of RFC 850'],
  ['Sunday, 06-Nov-94 08:49:37 GMT', 200, 'done', 'in the last century in the form of RFC 850'],
  ['Sun Mar  1 12:00:00 2026', 304, 'done', 'in the form of asctime'],
  ['Sun Mar  1 11:59:59 2026', 200, 'done', 'a second before in the form of asctime'],
  ['Sat Feb 28 23:59:60 2026', 200, 'done', 'in a leap second in the form of asctime'],
  ['yesterday', 200, 'done', 'in words'],
  ['', 200, 'done', 'empty'],
  ['2037-03-01T12:00:00Z', 200, 'done', 'as ISO 8601'],
  ['2114380800', 200, 'done', 'as a number'],
  ['Sun, 1 Mar 2037 12:00:00 GMT', 200, 'done', 'with a one-digit day'],
  ['Sun, 01 Mar 2037 12:00:00 gmt', 200, 'done', 'in lower case'],
  ['Sun, 01 Mar 2037 12:00:00 +0000', 200, 'done', 'with an offset'],
  ['Sun, 01 Mar 2037 12:00 GMT', 200, 'done', 'without seconds'],
  ['Sun, 01 Mar 2037 24:00:00 GMT', 200, 'done', 'at an invalid hour'],
  ['Fri, 30 Feb 2035 12:00:00 GMT', 200, 'done', 'on an invalid day'],
  ['Fri, 00 Mar 2035 12:00:00 GMT', 200, 'done', 'on day zero'],
  ['Xyz, 01 Mar 2037 12:00:00 GMT', 200, 'done', 'on an invalid weekday'],
  [`${future}, ${future}`, 200, 'done', 'with two dates'],
])

/** §13.1.4: false if changed after that second; an invalid HTTP date is ignored. */
const ifUnmodifiedSince = rows('if-unmodified-since', [
  [changed, 200, 'done', 'in the second of the change'],
  [earlier, 412, 412, 'a second before'],
  [later, 200, 'done', 'a second after'],
  [future, 200, 'done', 'in the future'],
  ['Sunday, 01-Mar-26 12:00:00 GMT', 200, 'done', 'in the form of RFC 850'],
  ['Sunday, 01-Mar-26 11:59:59 GMT', 412, 412, 'a second before in the form of RFC 850'],
  ['Sun Mar  1 12:00:00 2026', 200, 'done', 'in the form of asctime'],
  ['Sun Mar  1 11:59:59 2026', 412, 412, 'a second before in the form of asctime'],
  ['yesterday', 200, 'done', 'in words'],
  ['', 200, 'done', 'empty'],
  ['2009-03-01T12:00:00Z', 200, 'done', 'as ISO 8601'],
  ['0', 200, 'done', 'as a number'],
  ['Fri, 30 Feb 2001 12:00:00 GMT', 200, 'done', 'on an invalid day'],
])

const [M, N, S, U] = ['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since'] as const

const combined = (
  note: string,
  headers: Record<string, string>,
  read: Condition['read'],
  write: Condition['write'],
): Condition => ({ note: `a combination: ${note}`, headers, read, write })

/** §13.2.2: If-Match, otherwise If-Unmodified-Since; then If-None-Match, otherwise If-Modified-Since. */
const precedence = [
  combined('If-Match true, If-Unmodified-Since false and ignored', { [M]: '"3"', [U]: earlier }, 200, 'done'),
  combined('If-Match false, If-Unmodified-Since true and ignored', { [M]: '"2"', [U]: later }, 412, 412),
  combined('If-Match malformed, If-Unmodified-Since true and ignored', { [M]: '3', [U]: later }, 412, 412),
  combined('If-Match true, If-None-Match false', { [M]: '"3"', [N]: '"3"' }, 304, 412),
  combined('If-Match true, If-None-Match true', { [M]: '"3"', [N]: '"2"' }, 200, 'done'),
  combined('If-Match false, If-None-Match false', { [M]: '"2"', [N]: '"3"' }, 412, 412),
  combined('If-Match false, If-None-Match true', { [M]: '"2"', [N]: '"2"' }, 412, 412),
  combined('both with an asterisk', { [M]: '*', [N]: '*' }, 304, 412),
  combined('If-Match true, not modified', { [M]: '"3"', [S]: changed }, 304, 'done'),
  combined('If-Match true, modified', { [M]: '"3"', [S]: earlier }, 200, 'done'),
  combined('If-Match false, not modified', { [M]: '"2"', [S]: changed }, 412, 412),
  combined('unmodified, If-None-Match false', { [U]: changed, [N]: '"3"' }, 304, 412),
  combined('unmodified, If-None-Match true', { [U]: changed, [N]: '"2"' }, 200, 'done'),
  combined('modified, If-None-Match false', { [U]: earlier, [N]: '"3"' }, 412, 412),
  combined('modified, If-None-Match true', { [U]: earlier, [N]: '"2"' }, 412, 412),
  combined('If-None-Match false, If-Modified-Since true and ignored', { [N]: '"3"', [S]: earlier }, 304, 412),
  combined('If-None-Match true, If-Modified-Since false and ignored', { [N]: '"2"', [S]: changed }, 200, 'done'),
  combined('If-None-Match empty, If-Modified-Since false and ignored', { [N]: '', [S]: changed }, 200, 'done'),
  combined('If-None-Match malformed, If-Modified-Since ignored', { [N]: '3', [S]: changed }, 200, 412),
  combined('unmodified and not modified', { [U]: changed, [S]: changed }, 304, 'done'),
  combined('modified, by both dates', { [U]: earlier, [S]: earlier }, 412, 412),
  combined('an invalid date, not modified', { [U]: 'x', [S]: changed }, 304, 'done'),
  combined('all four, all true', { [M]: '"3"', [U]: changed, [N]: '"2"', [S]: earlier }, 200, 'done'),
  combined('all four, only If-None-Match false', { [M]: '"3"', [U]: earlier, [N]: '"3"', [S]: earlier }, 304, 412),
  combined('all four, only If-Match false', { [M]: '"2"', [U]: later, [N]: '"2"', [S]: earlier }, 412, 412),
]

export const conditions: readonly Condition[] = [
  { note: 'no condition', headers: {}, read: 200, write: 'done' },
  ...ifMatch,
  ...ifNoneMatch,
  ...ifModifiedSince,
  ...ifUnmodifiedSince,
  ...precedence,
]

/**
 * The same for a representation with a weak tag and no date, such as a list: `{tag}` stands for the opaque part of its tag,
 * with the quotes.
 */
export const weakConditions: readonly [note: string, headers: Record<string, string>, status: 200 | 304 | 412][] = [
  ['no condition', {}, 200],
  ['If-None-Match with its tag', { [N]: 'W/{tag}' }, 304],
  ['If-None-Match with its tag as if it were strong', { [N]: '{tag}' }, 304],
  ['If-None-Match with a list containing its tag', { [N]: '"x", W/{tag}' }, 304],
  ['If-None-Match with another tag', { [N]: 'W/"x"' }, 200],
  ['If-None-Match with an asterisk', { [N]: '*' }, 304],
  ['If-None-Match that is malformed', { [N]: 'W/{tag} oops' }, 200],
  ['If-Match with its tag, which is weak', { [M]: 'W/{tag}' }, 412],
  ['If-Match with its tag as if it were strong', { [M]: '{tag}' }, 412],
  ['If-Match with another tag', { [M]: '"x"' }, 412],
  ['If-Match with an asterisk', { [M]: '*' }, 200],
  ['If-Match that is malformed', { [M]: 'x' }, 412],
  ['If-Match with an asterisk and If-None-Match with its tag', { [M]: '*', [N]: 'W/{tag}' }, 304],
  ['If-Match with another tag and If-None-Match with its tag', { [M]: '"x"', [N]: 'W/{tag}' }, 412],
  ['If-Modified-Since in the future: it has no date', { [S]: future }, 200],
  ['If-Unmodified-Since in the past: it has no date', { [U]: earlier }, 200],
  ['If-None-Match with another tag and If-Modified-Since', { [N]: '"x"', [S]: future }, 200],
]

/** A POST is evaluated against its collection, which exists and has a weak tag and no date. */
export const additionConditions: readonly [note: string, headers: Record<string, string>, status: 201 | 412][] = [
  ['If-Match with an asterisk', { [M]: '*' }, 201],
  ['If-Match with a tag: those of lists are weak', { [M]: '"3"' }, 412],
  ['If-Match with a weak tag', { [M]: 'W/"x"' }, 412],
  ['If-Match that is malformed', { [M]: '3' }, 412],
  ['If-None-Match with an asterisk: the collection exists', { [N]: '*' }, 412],
  ['If-None-Match with a tag', { [N]: '"3"' }, 201],
  ['If-None-Match that is malformed', { [N]: '3' }, 412],
  ['If-Match and If-None-Match with an asterisk', { [M]: '*', [N]: '*' }, 412],
  ['If-Unmodified-Since in the past: it has no date', { [U]: earlier }, 201],
  ['If-Modified-Since, which applies only to reads', { [S]: future }, 201],
]

const R = 'range'
const I = 'if-range'

/** A download has a strong tag `{tag}`, no date, and 15 bytes: §13.2.2 with step 5, and §13.1.5. */
export const downloadConditions: readonly [note: string, headers: Record<string, string>, get: number, head: number][] =
  [
    ['no condition', {}, 200, 200],
    ['If-Match with its tag', { [M]: '{tag}' }, 200, 200],
    ['If-Match with an asterisk', { [M]: '*' }, 200, 200],
    ['If-Match with another tag', { [M]: '"x"' }, 412, 412],
    ['If-Match with its tag, but weak', { [M]: 'W/{tag}' }, 412, 412],
    ['If-Match that is malformed', { [M]: '{tag} oops' }, 412, 412],
    ['If-None-Match with its tag', { [N]: '{tag}' }, 304, 304],
    ['If-None-Match with its tag, but weak', { [N]: 'W/{tag}' }, 304, 304],
    ['If-None-Match with an asterisk', { [N]: '*' }, 304, 304],
    ['If-None-Match with another tag', { [N]: '"x"' }, 200, 200],
    ['If-None-Match that is malformed', { [N]: '{tag}, x' }, 200, 200],
    ['If-Modified-Since in the future: it has no date', { [S]: future }, 200, 200],
    ['If-Unmodified-Since in the past: it has no date', { [U]: earlier }, 200, 200],
    ['a range', { [R]: 'bytes=0-1' }, 206, 200],
    ['an unsatisfiable range', { [R]: 'bytes=99-' }, 416, 200],
    ['a range, If-Match true', { [R]: 'bytes=0-1', [M]: '{tag}' }, 206, 200],
    ['a range, If-Match false', { [R]: 'bytes=0-1', [M]: '"x"' }, 412, 412],
    ['an unsatisfiable range, If-Match false', { [R]: 'bytes=99-', [M]: '"x"' }, 412, 412],
    ['a range, If-None-Match false', { [R]: 'bytes=0-1', [N]: '{tag}' }, 304, 304],
    ['an unsatisfiable range, If-None-Match false', { [R]: 'bytes=99-', [N]: '{tag}' }, 304, 304],
    ['a range, If-None-Match true', { [R]: 'bytes=0-1', [N]: '"x"' }, 206, 200],
    ['a range, If-Range with its tag', { [R]: 'bytes=0-1', [I]: '{tag}' }, 206, 200],
    ['a range, If-Range with its tag, but weak', { [R]: 'bytes=0-1', [I]: 'W/{tag}' }, 200, 200],
    ['a range, If-Range with another tag', { [R]: 'bytes=0-1', [I]: '"x"' }, 200, 200],
    ['an unsatisfiable range, If-Range with another tag', { [R]: 'bytes=99-', [I]: '"x"' }, 200, 200],
    ['a range, If-Range with a list', { [R]: 'bytes=0-1', [I]: '{tag}, "x"' }, 200, 200],
    ['a range, If-Range with an asterisk', { [R]: 'bytes=0-1', [I]: '*' }, 200, 200],
    ['a range, If-Range with a date: it has none', { [R]: 'bytes=0-1', [I]: future }, 200, 200],
    ['If-Range without a range', { [I]: '"x"' }, 200, 200],
    ['a range, If-Match false, If-Range true', { [R]: 'bytes=0-1', [M]: '"x"', [I]: '{tag}' }, 412, 412],
    ['a range, If-None-Match false, If-Range true', { [R]: 'bytes=0-1', [N]: '{tag}', [I]: '{tag}' }, 304, 304],
    ['a range, If-Match true, If-Range false', { [R]: 'bytes=0-1', [M]: '{tag}', [I]: '"x"' }, 200, 200],
  ]
