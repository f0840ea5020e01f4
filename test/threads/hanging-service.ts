import { collection, service, Type } from 'plinth'

const fail = () => {
  throw new Error('crashed outside of a request')
}

/** The derived field never returns for a note named `hang`, and throws outside the request for one named `crash`. */
const notes = collection({
  path: '/notes',
  noun: 'note',
  body: Type.Object({ name: Type.String({ minLength: 1, maxLength: 40 }) }),
  derived: {
    length: {
      body: Type.Integer(),
      from: ({ name }) => {
        if (name === 'crash') setImmediate(fail)
        while (name === 'hang');
        return name.length
      },
    },
  },
})

export default service({ resources: [notes] })
