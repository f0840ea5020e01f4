import { collection, service, Type } from 'plinth'

const fail = () => {
  throw new Error('crashed outside of a request')
}

/** A definition whose function never returns for a row with the name `hang`, and throws outside a request for `crash`. */
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
