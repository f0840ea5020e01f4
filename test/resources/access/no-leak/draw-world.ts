import type { Dice } from './dice.ts'
import {
  type Condition,
  childLink,
  type Field,
  type Kind,
  kindOf,
  kinds,
  type Link,
  linkFields,
  type Name,
  names,
  nounOf,
  operatorsOf,
  pools,
  type Rule,
  type Shape,
  type Total,
  type World,
} from './shapes.ts'

function operand(dice: Dice, field: string, kind: Kind, inRule: boolean): unknown {
  if (field === 'createdBy') return '$me'
  if (kind === 'reference') return 1 + dice.int(4)
  if (inRule && dice.chance(0.02)) return null
  if (inRule && field === 'tenant' && dice.chance(0.6)) return '$tenant'
  if (inRule && kind === 'day' && dice.chance(0.3)) return 'today'
  return dice.one(pools[field] ?? [])
}

function comparison(dice: Dice, fields: readonly [string, Kind][], inRule: boolean): Condition {
  const [field, kind] = dice.one(fields)
  if (dice.chance(0.35)) return { [field]: operand(dice, field, kind, inRule) }
  const operator = dice.one(operatorsOf(kind))
  if (operator === 'null') return { [field]: { null: dice.chance(0.5) } }
  if (operator === 'in')
    return { [field]: { in: [1, 2].slice(dice.int(2)).map(() => operand(dice, field, kind, inRule)) } }
  const value = operand(dice, field, kind, inRule)
  return {
    [field]: {
      [operator]: operator === 'prefix' ? (value === '$me' ? 'user' : String(value ?? 'n').slice(0, 1)) : value,
    },
  }
}

function condition(dice: Dice, one: () => Condition, depth = 0): Condition {
  const part = () => (depth < 2 && dice.chance(0.2) ? condition(dice, one, depth + 1) : one())
  const parts = () => [part(), part(), part()].slice(dice.int(2))
  if (dice.chance(0.4)) return { any: dice.chance(0.05) ? [] : parts() }
  if (dice.chance(0.15)) return { all: parts() }
  return dice.chance(0.1) ? { ...one(), ...one() } : one()
}

function ruleFor(dice: Dice, { shapes }: World, name: Name): Rule {
  const named = (of: Name): [string, Kind][] => {
    const { fields, links, access } = shapes[of]
    const own = Object.entries(fields).map(([field, { kind }]): [string, Kind] => [field, kind])
    const tenant = own.filter(([field]) => field === 'tenant')
    const references = Object.keys(links).map((link): [string, Kind] => [`${link}Id`, 'reference'])
    return [
      ...own,
      ...tenant,
      ...tenant,
      ...references,
      ...(access === 'none' ? [] : [['createdBy', 'text'] as [string, Kind]]),
    ]
  }
  /** Generates a comparison that depends on the caller. */
  const ownComparison = (of: Name): Condition => {
    if (shapes[of].access !== 'none' && dice.chance(0.3)) return { createdBy: '$me' }
    const operands = ['$tenant', dice.one(pools.tenant ?? [])]
    return { tenant: dice.one<unknown>(['$tenant', '$tenant', { in: operands }, { not: '$tenant' }]) }
  }
  const one = (): Condition => {
    const isOwn = dice.chance(0.6)
    const link = dice.chance(0.4)
      ? dice.one<string | undefined>([...Object.keys(shapes[name].links), undefined])
      : undefined
    const target = link === undefined ? undefined : shapes[name].links[link]?.to
    if (link === undefined || target === undefined)
      return isOwn ? ownComparison(name) : comparison(dice, named(name), true)
    if (dice.chance(0.02)) return { [link]: null }
    return { [link]: condition(dice, () => (isOwn ? ownComparison(target) : comparison(dice, named(target), true))) }
  }
  const plain: Rule = dice.chance(0.18) ? dice.chance(0.9) : condition(dice, one)
  if (dice.chance(0.2)) return { is: dice.one(['auditor', 'admin']), otherwise: plain }
  return dice.chance(0.1) ? { may: dice.one(['admin', `${name}:write`]), otherwise: plain } : plain
}

function drawFields(dice: Dice): Record<string, Field> {
  const drawn = [
    'tenant',
    ...dice.some(['title', 'level', 'price', 'isOpen', 'due', 'status'], 0.6),
    ...dice.some(['pin'], 0.3),
  ]
  const isRequired = (name: string) => !['tenant', 'pin'].includes(name) && dice.chance(0.5)
  return Object.fromEntries(drawn.map((name) => [name, { kind: kinds[name] as Kind, isRequired: isRequired(name) }]))
}

function drawLinks(dice: Dice, earlier: readonly Name[], own: Name): Record<string, Link> {
  const link = (to: Name, canRequire = true): Link => {
    const onDelete = dice.one(['restrict', 'cascade', 'setNull'] as const)
    return { to, onDelete, isRequired: canRequire && onDelete !== 'setNull' && dice.chance(0.5) }
  }
  return {
    ...(earlier.length > 0 && { home: link(dice.one(earlier)) }),
    ...(earlier.length > 0 && dice.chance(0.4) && { other: link(dice.one(earlier), false) }),
    ...(dice.chance(0.35) && { boss: link(own, false) }),
  }
}

function drawTotals(dice: Dice, world: World, name: Name): Record<string, Total> {
  const totals: Record<string, Total> = {}
  for (const child of world.names) {
    if (child === name || childLink(world, name, child) === undefined) continue
    if (dice.chance(0.3)) totals[`${nounOf(child)}Count`] = { from: child, field: null }
    for (const field of ['price', 'level']) {
      if (world.shapes[child].fields[field] && dice.chance(0.4)) totals[`${nounOf(child)}Sum`] = { from: child, field }
    }
  }
  return totals
}

/** Selects the collection's filters, ranges, sorts, searched fields and unique fields at random. */
function drawLists(dice: Dice, shape: Shape): void {
  const { fields, whens, totals } = shape
  const visible = Object.keys(fields).filter((field) => !shape.writeOnly.includes(field))
  shape.filters = [...dice.some([...visible, ...Object.keys(whens), ...Object.keys(totals)], 0.7), ...linkFields(shape)]
  const isOrdered = (field: string) => ['integer', 'decimal', 'day'].includes(kindOf(shape, field))
  shape.ranges = dice.some([...visible, ...Object.keys(totals)].filter(isOrdered), 0.3)
  shape.search = dice.some(
    visible.filter((field) => fields[field]?.kind === 'text'),
    0.6,
  )
  const others = visible.filter((field) => field !== 'tenant')
  shape.unique =
    others.length > 0 && dice.chance(0.25)
      ? [['tenant', dice.one(others.filter((f) => f !== 'isOpen').concat('tenant'))]]
      : []
  shape.unique = shape.unique.filter(([one, other]) => one !== other)
  const isUnique = (field: string) => shape.unique.flat().includes(field)
  const canSort = (field: string) => {
    const { kind, isRequired } = fields[field] as Field
    return kind !== 'boolean' && (isRequired || (kind === 'text' && !isUnique(field)))
  }
  shape.sorts = dice.some([...visible.filter(canSort), ...Object.keys(totals)], 0.6)
}

function drawView(dice: Dice, shape: Shape): Shape['view'] {
  if (!dice.chance(0.5)) return null
  const computed = [...Object.keys(shape.whens), ...Object.keys(shape.totals)]
  const shown = [...Object.keys(shape.fields), ...linkFields(shape), ...computed].filter((f) => f !== 'pin')
  const canHide = (field: string) =>
    !(shape.setsTenant && field === 'tenant') && !(shape.links[field.replace(/Id$/, '')]?.isRequired ?? false)
  const hide = dice.some(shown.filter(canHide), 0.2)
  const required = hide.filter((field) => shape.fields[field]?.isRequired)
  const renamed = dice.some(
    shown.filter((field) => !hide.includes(field)),
    0.3,
  )
  return {
    rename: Object.fromEntries(renamed.map((field) => [field, `old${field[0]?.toUpperCase()}${field.slice(1)}`])),
    hide,
    defaults: Object.fromEntries(required.map((field) => [field, dice.one(pools[field] ?? [])])),
  }
}

/** Generates a definition with two to four collections. */
export function drawWorld(dice: Dice): World {
  const drawn = names.slice(0, 2 + dice.int(3))
  const world = { names: drawn, shapes: {} } as unknown as World
  for (const [at, name] of drawn.entries()) {
    const fields = drawFields(dice)
    const links = drawLinks(dice, drawn.slice(0, at), name)
    const lists = { filters: [], ranges: [], sorts: [], search: [], unique: [], whens: {}, totals: {} }
    const access = dice.chance(0.08) ? 'none' : { read: true, write: true }
    const others = { locked: null, writeOnly: fields.pin ? ['pin'] : [], immutable: [], view: null }
    const isSet = { setsTenant: dice.chance(0.25), hasLinks: dice.chance(0.3) }
    world.shapes[name] = { fields, links, access, ...lists, ...others, ...isSet }
  }
  for (const name of drawn) drawAccess(dice, world, name)
  for (const name of drawn) {
    const shape = world.shapes[name]
    const own = Object.entries(shape.fields).map(([field, { kind }]): [string, Kind] => [field, kind])
    if (dice.chance(0.35)) shape.locked = condition(dice, () => lockComparison(dice, world, name))
    const when = () =>
      condition(dice, () =>
        comparison(
          dice,
          own.filter(([field]) => field !== 'pin'),
          false,
        ),
      )
    if (dice.chance(0.4))
      shape.whens = { isHot: dice.chance(0.3) && shape.fields.due ? { due: { before: 'today' } } : when() }
    shape.totals = drawTotals(dice, world, name)
    const changeable = Object.keys(shape.fields).filter((field) => field !== 'pin' && field !== 'tenant')
    shape.immutable = dice.chance(0.2) ? dice.some(changeable, 0.3) : []
    drawLists(dice, shape)
    shape.view = drawView(dice, shape)
  }
  const of = dice.one(drawn)
  const fields = Object.entries(world.shapes[of].fields).filter(([field]) => field !== 'pin')
  const of2 = (...wanted: Kind[]) => fields.filter(([, { kind }]) => wanted.includes(kind)).map(([field]) => field)
  world.report = {
    of,
    where: dice.chance(0.5)
      ? comparison(
          dice,
          fields.map(([field, { kind }]) => [field, kind]),
          false,
        )
      : null,
    group: dice.one([...of2('text', 'enum', 'day', 'integer'), null]),
    sum: dice.one([...of2('integer', 'decimal'), null]),
  }
  return world
}

/** Generates a comparison of a field of the row, or of a row to which it refers. */
function lockComparison(dice: Dice, { shapes }: World, name: Name): Condition {
  const fieldsOf = (of: Name) =>
    Object.entries(shapes[of].fields).map(([field, { kind }]): [string, Kind] => [field, kind])
  const links = Object.entries(shapes[name].links)
  if (links.length === 0 || dice.chance(0.6)) return comparison(dice, fieldsOf(name), false)
  const [link, { to }] = dice.one(links)
  return { [link]: comparison(dice, fieldsOf(to), false) }
}

/** If a collection has access rules, replaces them with random rules or with those of a related collection. */
function drawAccess(dice: Dice, world: World, name: Name): void {
  const shape = world.shapes[name]
  if (shape.access === 'none') return
  const stepsOf = (of: Name): number => {
    const { access, links } = world.shapes[of]
    return typeof access === 'object' && 'of' in access ? 1 + stepsOf((links[access.of] as Link).to) : 0
  }
  const parents = Object.entries(shape.links).filter(
    ([, { to }]) => to !== name && world.shapes[to].access !== 'none' && stepsOf(to) < 3,
  )
  if (parents.length > 0 && dice.chance(0.4)) {
    shape.access = { of: dice.one(parents)[0] }
    return
  }
  const read = ruleFor(dice, world, name)
  shape.access = { read, write: dice.one([read, read, true, ruleFor(dice, world, name)]) }
}
