/** How the fields of a view differ from those of its collection. */
export interface FieldChanges {
  /** Maps the collection's field names to the names that clients see. */
  rename?: Readonly<Record<string, string>> | undefined
  /** Fields that the version does not have. */
  hide?: readonly string[] | undefined
}

type Members = Readonly<Record<string, unknown>>

/** Maps field names between a collection and a view, whose rows have members with the view's names. */
export interface FieldNames {
  /** Returns the view's name for a field of the collection; other names, such as `id`, stay the same. */
  memberOf: (field: string) => string
  /** Returns the collection's name for a member of the view; undefined if it is not a field, such as `id`. */
  ownOf: (member: string) => string | undefined
  /** Members that clients neither see nor send. */
  hidden: readonly string[]
  /** Returns a row or body of the view with the collection's names. */
  toOwn: <M extends Members>(members: M) => M
  /** The inverse of `toOwn`: returns a row or body of the collection with the view's names. */
  toMembers: <M extends Members>(own: M) => M
  /** Returns a representation of the collection with the names of the view and without hidden fields. */
  toShown: (representation: Members) => Record<string, unknown>
}

/** Returns the names in a view. In rows, a hidden field keeps its name unless a renamed field takes it. */
export function fieldNames(fields: readonly string[], { rename = {}, hide = [] }: FieldChanges): FieldNames {
  const shown = fields.filter((field) => !hide.includes(field))
  const members = new Map(
    shown.map((field) => [field, Object.hasOwn(rename, field) ? (rename[field] as string) : field]),
  )
  const taken = new Set(members.values())
  for (const field of fields) {
    if (!hide.includes(field)) continue
    let member = field
    while (taken.has(member)) member += 'Hidden'
    taken.add(member)
    members.set(field, member)
  }
  const owners = new Map([...members].map(([field, member]) => [member, field]))
  return {
    memberOf: (field) => members.get(field) ?? field,
    ownOf: (member) => owners.get(member),
    hidden: fields.filter((field) => hide.includes(field)).map((field) => members.get(field) as string),
    toOwn: (row) => renamed(row, (member) => owners.get(member) ?? member) as typeof row,
    toMembers: (own) => renamed(own, (field) => members.get(field) ?? field) as typeof own,
    toShown: (representation) => {
      const entries = Object.entries(representation).filter(([field]) => !hide.includes(field))
      return renamed(Object.fromEntries(entries), (field) => members.get(field) ?? field)
    },
  }
}

const renamed = (members: Members, nameOf: (name: string) => string): Record<string, unknown> =>
  Object.fromEntries(Object.entries(members).map(([name, value]) => [nameOf(name), value]))

/** The part of a declaration that only views have. */
export interface ViewOf<Collection> extends FieldNames {
  collection: Collection
  options: FieldChanges & { defaults?: Readonly<Record<string, unknown>> | undefined }
  /** Distinguishes the view's representations in entity tags. */
  tag: string
}
