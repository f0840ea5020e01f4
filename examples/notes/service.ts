import { collection, Line, service, Text, Title, Type } from 'plinth'

const notes = collection({
  path: '/notes',
  noun: 'note',
  body: Type.Object({
    title: Title,
    text: Type.Optional(Text()),
    topic: Type.Optional(Line(1, 50)),
    pinned: Type.Optional(Type.Boolean()),
  }),
  filters: ['topic', 'pinned'],
  search: ['title', 'text'],
  sorts: ['title'],
})

export default service({ resources: [notes] })
