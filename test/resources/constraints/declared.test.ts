import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { Line } from '../../../src/http/text-rules.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Day, Url } from '../../../src/resources/field-types.ts'
import { DefinitionError } from '../../../src/startup-errors.ts'

const body = Type.Object({
  tenant: Line(1, 40),
  name: Line(1, 40),
  code: Type.Optional(Line(1, 500)),
  site: Type.Optional(Url),
  start: Type.Optional(Day),
  end: Type.Optional(Day),
  done: Type.Optional(Type.Boolean()),
  state: Type.Enum(['a', 'b'], { default: 'a' }),
  level: Type.Integer({ default: 1 }),
  long: Type.Optional(Type.String()),
  tags: Type.Optional(Type.Array(Type.String())),
})

const rule = { field: 'end', message: 'must not be before start', holds: () => true }

/** The options are untyped, because definitions may be written in JavaScript. */
const declare = (options: object) => collection({ path: '/notes', noun: 'note', body, ...options } as never)

describe('constraints in a declaration', () => {
  const mistakes: [what: string, options: object, message: string][] = [
    ['an unknown field in a tuple', { unique: [['tenant', 'x']] }, "unique names 'x', but body has no such field"],
    [
      'a tuple of one field',
      { unique: [['tenant']] },
      'unique cannot include [tenant]: a tuple has several fields; name one without []',
    ],
    [
      'a field twice in a tuple',
      { unique: [['tenant', 'tenant']] },
      'unique cannot include [tenant, tenant]: it names a field twice',
    ],
    [
      'a tuple twice',
      {
        unique: [
          ['tenant', 'name'],
          ['name', 'tenant'],
        ],
      },
      'unique has [name, tenant] twice',
    ],
    [
      'six fields in a tuple',
      { unique: [['tenant', 'name', 'start', 'end', 'level', 'state']] },
      'unique cannot include [tenant, name, start, end, level, state]: use at most 5 fields',
    ],
    [
      'an array in a tuple',
      { unique: [['tenant', 'tags']] },
      'unique cannot include tags: its values cannot be unique',
    ],
    [
      'a boolean in a tuple',
      { unique: [['tenant', 'done']] },
      'unique cannot include done: its values cannot be unique',
    ],
    [
      'unbounded text in a tuple',
      { unique: [['tenant', 'long']] },
      'unique cannot include long without a maxLength of at most 500: it needs an index',
    ],
    [
      'a tuple whose values may be too long for an index',
      { unique: [['code', 'site']] },
      'unique cannot include [code, site]: their values may have 4,048 bytes, and an index takes 2,600',
    ],
    [
      'a tuple whose fields all have defaults',
      { unique: [['state', 'level']] },
      'unique cannot include [state, level]: several rows would have the defaults of all its fields',
    ],
    [
      'a sort by an optional field of a tuple',
      { unique: [['tenant', 'code']], sorts: ['code'] },
      'sorts cannot include code: it is optional; use required fields, or text that is not unique',
    ],
    ['an unknown write-only field', { writeOnly: ['x'] }, "writeOnly names 'x', but body has no such field"],
    ['an unknown immutable field', { immutable: ['x'] }, "immutable names 'x', but body has no such field"],
    ...['filters', 'search', 'sorts', 'listed', 'unique'].map((list): [string, object, string] => [
      `a write-only field in ${list} (T-API-04)`,
      { writeOnly: ['name'], [list]: ['name'] },
      `${list} cannot include name: it is write-only`,
    ]),
    [
      'a write-only field in ranges (T-API-04)',
      { writeOnly: ['start'], ranges: ['start'] },
      'ranges cannot include start: it is write-only',
    ],
    [
      'a write-only field in a tuple (T-API-04)',
      { writeOnly: ['name'], unique: [['tenant', 'name']] },
      'unique cannot include name: it is write-only',
    ],
    [
      'a field that is write-only and immutable (T-API-04)',
      { writeOnly: ['name'], immutable: ['name'] },
      'immutable cannot include name: not every caller may see it, and a refusal would reveal its value',
    ],
    [
      'a field that is hidden and immutable (T-API-04)',
      { hides: { fields: ['name'], unless: () => true }, immutable: ['name'] },
      'immutable cannot include name: not every caller may see it, and a refusal would reveal its value',
    ],
    [
      'writeOnly in a schema but not in the option',
      { body: Type.Object({ pin: Type.String({ writeOnly: true }) }) },
      'the schema of pin says writeOnly: name it in the option writeOnly',
    ],
    ['rules that are not an array', { rules: { end: 1 } }, 'rules must be an array of { field, message, holds }'],
    [
      'a rule for an unknown field',
      { rules: [{ ...rule, field: 'ends' }] },
      "rules names 'ends', but body has no such field",
    ],
    ['a rule that is null', { rules: [null] }, "rules names 'undefined', but body has no such field"],
    [
      'a rule without a message',
      { rules: [{ ...rule, message: ' ' }] },
      "the rule of end needs a message of at most 200 characters, such as 'must not be before start'",
    ],
    [
      'a rule without a function',
      { rules: [{ ...rule, holds: true }] },
      'the rule of end needs holds: (body) => boolean',
    ],
    [
      'an asynchronous rule',
      { rules: [{ ...rule, holds: async () => true }] },
      'holds of the rule of end must not be async: it is a function of the body alone',
    ],
    [
      'a misspelt option of a rule',
      { rules: [{ ...rule, when: 1 }] },
      "the rule of end has no option 'when'; use field, message, holds",
    ],
    ['an unknown field in set', { set: { x: 1 } }, "set names 'x', but body has no such field"],
    ['an unknown field in defaults', { defaults: { x: 1 } }, "defaults names 'x', but body has no such field"],
    ['a default of another type', { defaults: { name: 7 } }, 'defaults: the value of name is not valid for its type'],
    [
      'a default that is too short for its field',
      { defaults: { name: '' } },
      'defaults: the value of name is not valid for its type',
    ],
    [
      'an undefined default',
      { defaults: { name: undefined } },
      'defaults: the value of name is not valid for its type',
    ],
    [
      'a default for a field whose schema has one',
      { defaults: { level: 2 } },
      'defaults cannot include level: its schema has a default',
    ],
    [
      'an asynchronous default',
      { defaults: { name: async () => 'x' } },
      'defaults: the function of name must not be async: it may only await next(), as in async ({ next }) => …',
    ],
    [
      'a field in both set and defaults',
      { set: { name: 'a' }, defaults: { name: 'b' } },
      'set and defaults both name name: a body never has a value for a field of set',
    ],
    [
      'a constant default for a unique field',
      { defaults: { name: 'a' }, unique: ['name'] },
      'unique cannot include name: several rows would have its default',
    ],
  ]
  for (const [what, options, message] of mistakes) {
    it(`rejects ${what}`, () => {
      assert.throws(
        () => declare(options),
        (error) => {
          assert.ok(error instanceof DefinitionError, String(error))
          assert.deepEqual(error.message.split('\n'), [`/notes: ${message}`])
          return true
        },
      )
    })
  }

  it('accepts tuples alongside single fields; a tuple may include a field with a default', () => {
    const unique = ['code', ['tenant', 'name'], ['tenant', 'state', 'start'], ['site', 'tenant']]
    const { declaration } = declare({ unique })
    assert.deepEqual([declaration.unique, declaration.tuples.length], [['code'], 3])
  })
})
